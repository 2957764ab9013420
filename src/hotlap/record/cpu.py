"""Who computes on the cores of a training while its steps are recorded."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Another process that computes on the same cores while this one trains."""

    pid: int
    name: str
    """Its script, "main.py"; empty where that is not known."""
    threads: float
    """torch's intra-op threads in a process of the same command; of another one, threads that wanted a core, on
    average."""
    ours: bool
    """It trains as a part of the same command."""


# Two counters of the kernel's, read one after the other, agree to a few percent.
_ABOUT = 1.05

# Of the time in which training wants a core; from here on nobody takes much of it.
_SERVED = 0.9

# Of a core. Ours: a thread that only looks on, as that of a progress bar, wants a hundredth.
_MIN_THREADS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """Processor time while the recorded steps went on."""

    usable_cores: float
    main: float
    """Cores that the training process kept busy, e.g. 1.7."""
    others: float
    """Cores that its workers and children kept busy."""
    runnable: float | None = None
    """Threads of the process tree that were running or wanted to, on average; None where that cannot be seen."""
    throttled: float | None = None
    """Part of the time in which the cgroup's quota held the process still, in [0, 1]."""
    busiest_worker: float | None = None
    """As `runnable`, of the one child process that has the most such threads; None without children."""
    threads: float = 0.0
    """Cores that other Python threads of the training process had or wanted; 0 also where that cannot be seen."""
    page_faults: float = 0.0
    """Of the training process a second, each a page of zeros that the kernel hands out; 0 also where that cannot be
    seen."""
    page_fault_s: float = 0.0
    """What one takes here."""
    neighbours: tuple[Neighbour, ...] = ()
    """Other processes that train, or other Python programs that compute, on the same cores."""

    @property
    def served(self) -> float | None:
        """Part of the time in which its threads wanted a core and had one, in [0, 1].

        None where that cannot be seen, and where they wait for something else than other programs: for each other, as
        they wanted more cores than they may use, or for the cgroup's quota.
        """
        if self.runnable is None or not 0 < self.runnable <= _ABOUT * self.usable_cores or (self.throttled or 0) > 0.01:
            return None
        return min(1.0, (self.main + self.others) / self.runnable)

    @property
    def has_threads(self) -> bool:
        """Other Python threads of the process compute, so what the training's spends in no phase may be a wait."""
        return self.threads >= _MIN_THREADS

    @property
    def disturbed(self) -> bool:
        """Others took much of the cores: times are longer than alone."""
        return self.served is not None and self.served < _SERVED
