"""Quantiles of any number of positive values in bounded room, right to 1% of the value; two sketches can be joined.

Values are counted in bins whose borders grow by a factor: DDSketch (Masson, Rim, Lee: "DDSketch: a fast and
fully-mergeable quantile sketch with relative-error guarantees", PVLDB 12(12), 2019).
"""

import math
from collections.abc import Sequence

ACCURACY = 0.01
_GROWTH = (1 + ACCURACY) / (1 - ACCURACY)
_SCALE = 1 / math.log(_GROWTH)
# Shorter steps do not exist; so there are at most 1,600 bins from here to a day.
_LEAST = 1e-9


class Sketch:
    """Counts by bin. Step times of one training fill some dozens of bins."""

    __slots__ = ("bins", "count")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0

    def add(self, value: float) -> None:
        """One more value."""
        place = math.ceil(math.log(value if value > _LEAST else _LEAST) * _SCALE)
        self.bins[place] = self.bins.get(place, 0) + 1
        self.count += 1

    def join(self, other: "Sketch") -> None:
        """All values of `other` as well."""
        for place, count in other.bins.items():
            self.bins[place] = self.bins.get(place, 0) + count
        self.count += other.count

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """The values below which these shares (ascending, in [0, 1]) lie; 0 without a value."""
        if not self.count:
            return [0.0] * len(shares)
        found: list[float] = []
        seen = 0
        for place in sorted(self.bins):
            seen += self.bins[place]
            while len(found) < len(shares) and seen > shares[len(found)] * (self.count - 1):
                found.append(2 * _GROWTH**place / (_GROWTH + 1))
        return found
