"""Laps of a run of any length -> bounded room: a sample of blocks, stretches of steps, and the longest steps.

- The sample: of the blocks of successive steps so many are drawn by lot, each with the same chance.
- The stretches: as many successive steps each; once there are too many, neighbours are joined and all are twice as
  long. Sums and counts join exactly; quantiles are those of step times drawn evenly from each.

Everything is done for some hundred rows at once, between two steps.
"""

import heapq
import math
import random
from array import array
from collections.abc import Sequence
from typing import Any

from hotlap.probe import losses
from hotlap.probe.clock import INPUT, PHASES, Lap
from hotlap.probe.ledger import set_aside
from hotlap.record import LongRun, Outlier, Stretch, as_number

# Laps that are handled together.
CHUNK = 256

# Steps of a block of the sample, and blocks that are kept at most: 4,096 steps are enough for each quantile and rule,
# and make about 1 MB of JSON.
_BLOCK, _MOST_BLOCKS = 32, 128
# Steps of the first stretches, of whose times as many are kept, and stretches at most: a line on a screen has no more
# points.
_STRETCH, _MOST_STRETCHES = 64, 512
_MOST_OUTLIERS = 64


class Thinning:
    """Takes rows one by one; `trained` tells what is left of them."""

    def __init__(self) -> None:
        self._draw = random.Random(0)
        self._chunk: list[Lap] = []
        self._block: list[Lap] = []
        self._blocks: list[tuple[float, int, list[Lap]]] = []
        """A heap of (lot, number, rows)."""
        self._stretches: list[_Part] = []
        self._length = _STRETCH
        self._longest: list[Lap] = []
        self._num_blocks = self._num_validations = 0
        self._validation_s = self._validation_input_s = 0.0

    def add(self, row: Lap) -> None:
        """A recorded step."""
        self._chunk.append(row)
        if len(self._chunk) == CHUNK:
            self.flush()

    def flush(self) -> None:
        """Take up all rows that were added."""
        chunk, self._chunk = self._chunk, []
        losses.read(chunk)
        self._fold(chunk)

    def trained(self) -> tuple[list[Lap], dict[str, Any]]:
        """The sample, and the fields of a Run that no sample can give."""
        return self.rows(), {
            "long": self._long(),
            "num_validations": self._num_validations,
            "validation_s": self._validation_s,
            "validation_input_s": self._validation_input_s,
        }

    def rows(self) -> list[Lap]:
        """The sample, in its order."""
        self.flush()
        blocks = sorted(self._blocks, key=lambda one: one[1])
        return [row for block in (*(rows for *_, rows in blocks), self._block) for row in block]

    def _long(self) -> LongRun:
        count, total_s = (math.fsum(getattr(one, name) for one in self._stretches) for name in ("count", "total_s"))
        p50_s, p90_s, p99_s = _quantiles([(one.times, one.count) for one in self._stretches], (0.5, 0.9, 0.99))
        return LongRun(
            num_steps=int(count),
            total_s=total_s,
            mean_s=total_s / count if count else 0.0,
            p50_s=p50_s,
            p90_s=p90_s,
            p99_s=p99_s,
            stretches=tuple(part.stretch() for part in self._stretches),
            outliers=tuple(self._outliers()),
        )

    def _fold(self, chunk: list[Lap]) -> None:
        trained, found = set_aside(chunk)
        self._num_validations += len(found)
        self._validation_s += sum(sum(stretch.spent) for stretch in found)
        self._validation_input_s += sum(stretch.spent[INPUT] for stretch in found)
        self._longest = heapq.nlargest(_MOST_OUTLIERS, [*self._longest, *trained], key=lambda row: sum(row.spent))
        for row in trained:
            self._sample(row)
            if not self._stretches or self._stretches[-1].count >= self._length:
                self._begin_stretch(row.number)
            self._stretches[-1].add(row)

    def _sample(self, row: Lap) -> None:
        self._block.append(row)
        if len(self._block) == _BLOCK:
            heapq.heappush(self._blocks, (self._draw.random(), self._num_blocks, self._block))
            self._num_blocks, self._block = self._num_blocks + 1, []
            if len(self._blocks) > _MOST_BLOCKS:
                heapq.heappop(self._blocks)

    def _begin_stretch(self, first: int) -> None:
        if len(self._stretches) == _MOST_STRETCHES:
            self._stretches = [one.join(after) for one, after in zip(*[iter(self._stretches)] * 2, strict=True)]
            self._length *= 2
        self._stretches.append(_Part(first, every=self._length // _STRETCH))

    def _outliers(self) -> list[Outlier]:
        """The longest first, each with the phase in which it is furthest beyond the mean step of the sample."""
        sample = self.rows()
        usual = [sum(row.spent[i] for row in sample) / len(sample) for i in range(len(PHASES))] if sample else []
        found = []
        for row in self._longest:
            excess_s, phase = max(
                (spent - mean, i) for i, (spent, mean) in enumerate(zip(row.spent, usual, strict=True))
            )
            found.append(Outlier(step=row.number, step_s=sum(row.spent), phase=PHASES[phase], excess_s=excess_s))
        return found


def _quantiles(parts: Sequence[tuple[Sequence[float], int]], shares: Sequence[float]) -> list[float]:
    """Of step times, each list of which stands for so many; 0 without one."""
    weighed = sorted((time, count / len(times)) for times, count in parts for time in times)
    total, found, seen = sum(weight for _, weight in weighed), [0.0] * len(shares), 0.0
    for time, weight in weighed:
        found = [time if seen <= share * total else before for share, before in zip(shares, found, strict=True)]
        seen += weight
    return found


class _Part:
    """Successive steps, summed up."""

    __slots__ = ("_every", "_loss", "_num_losses", "_odd", "count", "first", "times", "total_s")

    def __init__(self, first: int, *, every: int) -> None:
        """`every`: of so many steps the time of one is kept."""
        self.first, self._every = first, every
        self.count = self._num_losses = self._odd = 0
        self.total_s = self._loss = 0.0
        self.times = array("d")

    def add(self, row: Lap) -> None:
        step_s = sum(row.spent)
        if self.count % self._every == 0:
            self.times.append(step_s)
        self.count += 1
        self.total_s += step_s
        if row.losses:
            loss = sum(row.losses)
            if math.isfinite(loss):
                self._loss += loss
                self._num_losses += 1
            else:
                self._odd += 1

    def join(self, later: "_Part") -> "_Part":
        """Both as one; this one is changed."""
        self._every *= 2
        self.times = (self.times + later.times)[::2]
        self.count += later.count
        self.total_s += later.total_s
        self._loss += later._loss
        self._num_losses += later._num_losses
        self._odd += later._odd
        return self

    def stretch(self) -> Stretch:
        p50_s, p90_s = _quantiles([(self.times, self.count)], (0.5, 0.9))
        return Stretch(
            first_step=self.first,
            num_steps=self.count,
            mean_s=self.total_s / self.count,
            p50_s=p50_s,
            p90_s=p90_s,
            loss=as_number(self._loss / self._num_losses) if self._num_losses else None,
            num_not_finite=self._odd,
        )
