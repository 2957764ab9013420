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
    work: int = 0
    """Elements of the tensors that the model was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Gradients that DistributedDataParallel sends in one piece. Times are readings of `RankLog.clock`, in seconds."""

    ready: float
    """The last gradient of this process is in it, and the buckets before it were sent."""
    sent: float
    """The communication hook has it under way."""
    back: float
    """The mean over all processes is there."""
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPass:
    """A backward pass that has sent gradients."""

    step_index: int
    """As in `Run.step_index`; such steps are not recorded there."""
    end: float
    """Reading of `RankLog.clock`."""
    buckets: tuple[Bucket, ...]
    """In the order in which they were sent."""


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
    passes: tuple[BucketPass, ...] = ()
    """Of the window of the watch `buckets`; empty where that saw nothing."""
