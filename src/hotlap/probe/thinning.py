"""Rows of a run of any length -> bounded room: a sample of blocks, stretches with sketches, and the longest steps.

- The sample: rows are cut into blocks of successive steps. Once there are too many, each two neighbours are thinned to
  one, drawn by lot, and from then on one block of each group of 2, 4, 8, ... is kept. So each block of the run has the
  same chance, they lie evenly over it, and within a block no step is missing.
- The stretches: as many successive steps each; once there are too many, neighbours are joined and all are twice as
  long. Sums and counts join exactly, and so do the sketches that give the quantiles.
- The longest steps.

Everything is done for some hundred rows at once, between two steps.
"""

import heapq
import os
import random
from collections.abc import Sequence
from typing import Any

import torch

from hotlap import accelerator
from hotlap.probe import aside
from hotlap.probe.clock import PHASES
from hotlap.probe.ledger import Row, without
from hotlap.probe.losses import OnDevice, known, value
from hotlap.probe.sketch import Sketch
from hotlap.record import LongRun, Outlier, Stretch, as_number

# Rows that are handled together.
CHUNK = 256

# Steps of a block of the sample, and blocks that are kept at most: 4,096 steps are enough for each quantile and rule,
# and make about 1 MB of JSON.
_BLOCK, _MOST_BLOCKS = 32, 128
# Steps of the first stretches, and stretches at most: a line on a screen has no more points.
_STRETCH, _MOST_STRETCHES = 64, 512
_MOST_OUTLIERS = 64


class Thinning:
    """Takes rows one by one; `rows` and `long_run` tell what is left of them. `draws` is the lot (a seed)."""

    def __init__(self, *, draws: int = 0) -> None:
        self._chunk: list[Row] = []
        self._waiting: tuple[list[Row], torch.Tensor, torch.Event] | None = None
        self._sample = _Sample(random.Random(draws))
        self._stretches = _Stretches()
        self._outliers: list[Outlier] = []
        """The longest first."""
        self._num_lost = 0
        self.validations = 0
        self.validation_s = 0.0

    def add(self, row: Row) -> None:
        """A recorded step."""
        self._chunk.append(row)
        if len(self._chunk) == CHUNK:
            chunk, self._chunk = self._chunk, []
            self._take(chunk)

    def flush(self) -> None:
        """Take up all rows that were added."""
        chunk, self._chunk = self._chunk, []
        self._take(chunk)
        self._take([])

    def rows(self) -> list[Row]:
        """The sample, in its order; rows since the last flush are not in it."""
        return self._sample.rows()

    def long_run(self) -> LongRun:
        """All rows up to the last flush, summed up."""
        whole = self._stretches.whole()
        p50_s, p90_s, p99_s = whole.sketch.quantiles((0.5, 0.9, 0.99))
        return LongRun(
            num_steps=whole.count,
            total_s=whole.total_s,
            mean_s=whole.mean_s,
            p50_s=p50_s,
            p90_s=p90_s,
            p99_s=p99_s,
            stretches=tuple(part.stretch() for part in self._stretches.parts),
            outliers=tuple(self._outliers),
            num_lost=self._num_lost,
        )

    def fields(self) -> dict[str, Any]:
        """Of a Run: those that no sample can give, up to the last flush."""
        return {
            "long": self.long_run(),
            "num_validations": self.validations,
            "validation_s": self.validation_s,
        }

    def _take(self, chunk: list[Row]) -> None:
        """A chunk is full. An error of ours must not reach the training: what cannot be taken up is counted."""
        try:
            self._settle()
            self._fetch(chunk)
        except Exception:
            self._num_lost += len(chunk)

    def _fetch(self, chunk: list[Row]) -> None:
        """Losses on a device are fetched while the next chunk fills, so that nobody waits for them."""
        chunk = [row._replace(losses=known(row.losses)) for row in chunk]
        on_device = [loss.tensor.reshape(()) for row in chunk for loss in row.losses if isinstance(loss, OnDevice)]
        if len({(loss.device, loss.dtype) for loss in on_device}) != 1:
            self._fold([row._replace(losses=[*map(value, row.losses)]) for row in chunk])
            return
        stacked = torch.stack(on_device)
        # Into pinned memory: to any other the host waits until all work before it is done.
        fetched = torch.empty(stacked.shape, dtype=stacked.dtype, pin_memory=True)
        fetched.copy_(stacked, non_blocking=True)
        event = accelerator.event()
        event.record(accelerator.lane(stacked.device))
        self._waiting = (chunk, fetched, event)

    def _settle(self) -> None:
        """Fold the chunk whose losses were on their way."""
        if self._waiting is None:
            return
        chunk, fetched, event = self._waiting
        self._waiting = None
        event.synchronize()
        values = iter(fetched.tolist())
        self._fold(
            [
                row._replace(losses=[next(values) if isinstance(loss, OnDevice) else loss for loss in row.losses])
                for row in chunk
            ]
        )

    def _fold(self, chunk: list[Row]) -> None:
        stretches = aside.validations([row.aside for row in chunk])
        trained = [self._trained(row, stretch) for row, stretch in zip(chunk, stretches, strict=True)]
        self._note_outliers(trained)
        for row in trained:
            self._sample.add(row)
        self._stretches.add(trained)

    def _trained(self, row: Row, validation: aside.Stretch | None) -> Row:
        """The row without its validation."""
        if validation is None:
            return row
        self.validations += 1
        self.validation_s += sum(validation.spent)
        return without(row, validation)._replace(aside=None)

    def _note_outliers(self, rows: Sequence[Row]) -> None:
        least_s = self._outliers[-1].step_s if len(self._outliers) == _MOST_OUTLIERS else -1.0
        usual = self._stretches.usual_s()
        found = [_outlier(row, usual) for row in rows if sum(row.spent) > least_s]
        self._outliers = heapq.nlargest(_MOST_OUTLIERS, [*self._outliers, *found], key=lambda one: one.step_s)


def _outlier(row: Row, usual: Sequence[float]) -> Outlier:
    """With what took so long; `usual`: seconds by phase."""
    excess = [spent - mean for spent, mean in zip(row.spent, usual, strict=True)]
    worst = max(range(len(excess)), key=excess.__getitem__)
    return Outlier(step=row.step_index, step_s=sum(row.spent), phase=PHASES[worst], excess_s=excess[worst])


class _Sample:
    """Blocks of rows, evenly drawn."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._blocks: list[list[Row]] = []
        self._open: list[Row] = []
        self._in_block = 0
        self._group = 1
        """One block of so many is kept."""
        self._place = 0
        self._wanted = 0

    def add(self, row: Row) -> None:
        if self._place == self._wanted:
            self._open.append(row)
        self._in_block += 1
        if self._in_block == _BLOCK:
            self._close_block()

    def _close_block(self) -> None:
        self._in_block = 0
        if self._open:
            self._blocks.append(self._open)
            self._open = []
        self._place += 1
        if self._place < self._group:
            return
        if len(self._blocks) == _MOST_BLOCKS:
            self._blocks = [self._draw.choice(self._blocks[i : i + 2]) for i in range(0, _MOST_BLOCKS, 2)]
            self._group *= 2
        self._place = 0
        self._wanted = self._draw.randrange(self._group)

    def rows(self) -> list[Row]:
        """In their order."""
        return [row for block in (*self._blocks, self._open) for row in block]


class _Part:
    """Sums over successive steps."""

    __slots__ = ("count", "device_bytes", "first", "loss", "num_losses", "odd", "rss", "sketch", "spent_s")

    def __init__(self) -> None:
        self.first = 0
        self.count = 0
        self.spent_s = [0.0] * len(PHASES)
        self.sketch = Sketch()
        self.loss = 0.0
        self.num_losses = 0
        self.odd = 0
        self.rss: int | None = None
        self.device_bytes: int | None = None

    @property
    def total_s(self) -> float:
        return sum(self.spent_s)

    @property
    def mean_s(self) -> float:
        return self.total_s / self.count if self.count else 0.0

    def add(self, row: Row) -> None:
        if not self.count:
            self.first = row.step_index
        self.count += 1
        step_s = 0.0
        totals = self.spent_s
        for i, spent in enumerate(row.spent):
            if spent:
                totals[i] += spent
                step_s += spent
        self.sketch.add(step_s)
        if row.losses:
            loss = sum(map(value, row.losses))
            if abs(loss) < float("inf"):
                self.loss += loss
                self.num_losses += 1
            else:
                self.odd += 1

    def join(self, later: "_Part") -> "_Part":
        """Both as one; this one is changed."""
        self.first = self.first if self.count else later.first
        self.count += later.count
        self.spent_s = [a + b for a, b in zip(self.spent_s, later.spent_s, strict=True)]
        self.sketch.join(later.sketch)
        self.loss += later.loss
        self.num_losses += later.num_losses
        self.odd += later.odd
        self.rss = later.rss if later.rss is not None else self.rss
        self.device_bytes = later.device_bytes if later.device_bytes is not None else self.device_bytes
        return self

    def stretch(self) -> Stretch:
        p50_s, p90_s = self.sketch.quantiles((0.5, 0.9))
        return Stretch(
            first_step=self.first,
            num_steps=self.count,
            mean_s=self.mean_s,
            p50_s=p50_s,
            p90_s=p90_s,
            loss=as_number(self.loss / self.num_losses) if self.num_losses else None,
            num_not_finite=self.odd,
            rss_bytes=self.rss,
            device_bytes=self.device_bytes,
        )


class _Stretches:
    """Parts of equal length, the last one still open."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self._length = _STRETCH

    def whole(self) -> _Part:
        """All of them as one."""
        whole = _Part()
        for part in self.parts:
            whole.join(part)
        return whole

    def usual_s(self) -> list[float]:
        """Seconds by phase of the usual step, of late."""
        part = self.parts[-1] if self.parts else _Part()
        if part.count < _STRETCH // 2 and len(self.parts) > 1:
            part = self.parts[-2]
        return [spent / max(part.count, 1) for spent in part.spent_s]

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if not self.parts or self.parts[-1].count >= self._length:
                self._begin()
            self.parts[-1].add(row)
        if self.parts:
            self.parts[-1].rss = _rss_bytes()
            self.parts[-1].device_bytes = _device_bytes()

    def _begin(self) -> None:
        if len(self.parts) == _MOST_STRETCHES:
            self.parts = [self.parts[i].join(self.parts[i + 1]) for i in range(0, _MOST_STRETCHES, 2)]
            self._length *= 2
        self.parts.append(_Part())


def _rss_bytes() -> int | None:
    """Resident memory now. (psutil would need a process object and 20 us; this needs 5.)"""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _device_bytes() -> int | None:
    return accelerator.allocated_bytes()
