"""What one of several processes that train together keeps of its collectives, for the parent to compare."""

from dataclasses import dataclass

from hotlap.record.plan import SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """One stretch in which a process was held by a collective. Times are readings of `RankLog.clock`, in seconds."""

    ready: float | None
    """When this process had offered its part, so that nobody waited for it any more; None where only some of the
    processes take part (a subgroup, send and receive), so that the others' `ready` says nothing."""
    begin: float
    """From when on it was held."""
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """The meetings of one step, in order."""

    step_index: int
    """As in `Run.step_index`."""
    meetings: tuple[Meeting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLog:
    """Beside the Run of the same process, and thrown away once the processes have been compared."""

    rank: int
    host: str
    clock: str
    """Readings of two processes can be compared if this is equal (one host, one boot)."""
    schema: int = SCHEMA
    on_device: bool = False
    """The collectives run on a device: the host is hardly held by them, so their times say nothing."""
    steps: tuple[RankStep, ...] = ()
