"""What one of several processes that train together keeps of its collectives, for the parent to compare."""

from dataclasses import dataclass

from hotlap.record.plan import SCHEMA


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
