"""What one of several processes that train together keeps of its collectives, for the parent to compare."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hotlap.record.plan import SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Gradients that DistributedDataParallel sends in one piece. Times are readings of the host's clock, in seconds."""

    ready: float
    """The last gradient of this process is in it, and the buckets before it were sent."""
    back: float
    """The mean over all processes is there."""
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketPass:
    """A backward pass that has sent gradients."""

    step_index: int
    """As in `Run.step_index`; such steps are not recorded there."""
    end: float
    """Reading of the same clock."""
    buckets: tuple[Bucket, ...]
    """In the order in which they were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLog:
    """Beside the Run of the same process, and thrown away once the processes have been compared."""

    rank: int
    host: str
    """Processes of one host have one clock."""
    schema: int = SCHEMA
    on_device: bool = False
    """The collectives run on a device: the host is hardly held by them, so their times say nothing."""
    of_some: bool = False
    """The script has called collectives of some of the processes only (a subgroup, send and receive)."""
    work: Mapping[int, int] = field(default_factory=dict)
    """`Run.step_index` -> elements of the tensors that the model was given in that step."""
    passes: tuple[BucketPass, ...] = ()
    """Of the window of the profiler `buckets`; empty where that saw nothing."""
