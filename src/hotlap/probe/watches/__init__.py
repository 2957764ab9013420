"""One file a watch: what else is looked at while the script trains."""

from collections.abc import Mapping

from hotlap.probe.watches.lines import Lines
from hotlap.probe.watches.operators import Operators
from hotlap.probe.watches.watch import Watch

__all__ = ["ALL", "Watch"]

ALL: Mapping[str, type[Watch]] = {
    "lines": Lines,
    "operators": Operators,
}
"""Name in a plan -> the watch."""
