"""affinity: each thread of the CPU's operators stays on a core of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Scope, script_sha256
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, InsertAtTop

_SETTINGS = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
_CHOICES = (*_SETTINGS, "GOMP_CPU_AFFINITY", "KMP_AFFINITY")

# Read when the OpenMP library is loaded, with torch.
_SET = """\
import os

os.environ.setdefault("OMP_PROC_BIND", "close")  # one core for each thread; read when torch is imported
os.environ.setdefault("OMP_PLACES", "cores")
"""

# With two, the scheduler has little to choose from.
_FEWEST_CORES = 3

# What pinning was reported to save is a small part; it serves to order the search.
_PART = 0.2


@final
@dataclass(frozen=True, slots=True)
class Affinity(Lever):
    """Starts the process with `OMP_PROC_BIND=close OMP_PLACES=cores`: OpenMP's threads do not wander.

    What: each of torch's threads, the main one included, is bound to one physical core, side by side.
    Why: a thread that moves loses its cache, and two that meet on the hyper-threads of one core wait for each other
    (PyTorch's tuning guide, "OMP_PROC_BIND=CLOSE"; its guide on CPU launchers).
    When it hurts: processes that are started later inherit the one core of the main thread (pytorch/pytorch#101850,
    #91989), so it is refused where a loader has workers, which would all crowd there, and where several processes train
    together, which would all begin at the same core. Where others use the same cores, a bound thread cannot step aside.
    """

    name: ClassVar[str] = "affinity"
    scope: ClassVar[Scope] = Scope.PROCESS
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Where the model runs, how many cores there are, workers, and choices of the user's own."""
        if run.device != "cpu":
            return "The model runs on a GPU; the threads of CPU operators do not decide its speed."
        if machine.system != "Linux":
            return f"Threads are bound to cores by OpenMP on Linux; this is {machine.system}."
        if machine.usable_cores < _FEWEST_CORES or run.num_threads in (None, 1):
            threads = run.num_threads or "an unknown number of"
            return f"There is little to bind: {machine.usable_cores:g} cores, and {threads} threads."
        environment = run.switches.environment if run.switches is not None else {}
        chosen = next((name for name in _CHOICES if name in environment), None)
        if chosen is not None:
            return f"{chosen} is set already."
        return _crowded(run) or ("There is no script of the user's to change." if script_sha256(run) is None else None)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """A part of the arithmetic."""
        phases = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
        return _PART * sum(run.mean_phase_s(phase) or 0.0 for phase in phases)

    def environment(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Both, unless something was chosen."""
        return {} if any(name in environ for name in _CHOICES) else dict(_SETTINGS)

    def edits(self, run: Run) -> Sequence[Edit]:
        """The variables are set before torch is imported."""
        script = script_sha256(run)
        return (InsertAtTop(path=script[0], sha256=script[1], code=_SET),) if script else ()


def _crowded(run: Run) -> str | None:
    """Who would meet on the core of the main thread."""
    if run.world_size > 1:
        return "Several processes train together, and each would bind its threads to the same first cores."
    if any(loader.num_workers for loader in run.loaders):
        return "A loader has workers, which would all inherit the one core of the training thread."
    return None
