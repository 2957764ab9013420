"""One file a watch: what else is looked at while the script trains."""

from collections.abc import Mapping

from hotlap.probe.watches.watch import Watch
from hotlap.probe.watches.workload import WorkloadWatch

__all__ = ["ALL", "Watch"]

ALL: Mapping[str, type[Watch]] = {"workload": WorkloadWatch}
"""Name in a plan -> the watch."""
