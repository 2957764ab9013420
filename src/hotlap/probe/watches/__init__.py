"""One file a watch: what else is looked at while the script trains."""

from collections.abc import Mapping

from hotlap.probe.watches.lines import Lines
from hotlap.probe.watches.operators import Operators
from hotlap.probe.watches.syncs import Syncs
from hotlap.probe.watches.trips import Trips
from hotlap.probe.watches.watch import Watch
from hotlap.probe.watches.workload import WorkloadWatch

__all__ = ["ALL", "Watch"]

ALL: Mapping[str, type[Watch]] = {
    "operators": Operators,
    "syncs": Syncs,
    "trips": Trips,
    # Last: it may take many steps, and a short script has few.
    "lines": Lines,
    "workload": WorkloadWatch,
}
"""Name in a plan -> the watch."""
