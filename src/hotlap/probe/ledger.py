"""The arrays of a Run, filled step by step; of a run of any length in bounded room."""

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hotlap.probe import clock as phases
from hotlap.probe import losses
from hotlap.probe.clock import PHASES, StepSpans, Stretch
from hotlap.record import LongRun, as_number
from hotlap.record.moments import median
from hotlap.record.spans import columns

# Recorded steps that a later one is compared with: it takes 0.1 ms, at each step where each has a teacher.
_LOOKED_BACK_AT = 256

# The first steps are kept even when they are not recorded: they hold the one-time costs.
_MAX_FIRST_STEPS = 2000

# What happens in more than this part of the steps belongs to training: a target network, a teacher, the frozen half of
# a GAN run their forward passes without gradients in each step, while a validation comes once in many.
_TRAINING_SHARE = 1 / 3

# Where each step has such forward passes, a validation shows by batches that are only looked at, or, of data that no
# loader gave, by many more passes: so many times as many as usual.
_FACTOR = 3

# Laps that are handled together.
_CHUNK = 256

# Steps of a block of the sample, and blocks that are kept at most: 4,096 steps are enough for each quantile and rule,
# and make about 1 MB of JSON.
_BLOCK, _MOST_BLOCKS = 32, 128


class Ledger:
    """Appends one row a step; `columns` turns the rows into the fields of a Run.

    With `thinning` it holds no more than a sample of them, however many come.
    """

    def __init__(self, thinning: "Thinning | None" = None) -> None:
        self.first_steps_s: list[float] = []
        self._evidence: defaultdict[str, list[Any]] = defaultdict(list)
        self._rows: list[StepSpans] = []
        self._thinning = thinning
        self.add: Callable[[StepSpans], None] = self._rows.append if thinning is None else thinning.add
        """Takes a step."""

    def warm_up(self, spent: list[float]) -> None:
        """A step that is not recorded."""
        if len(self.first_steps_s) < _MAX_FIRST_STEPS:
            self.first_steps_s.append(sum(spent))

    def share_out(self, seconds: float, num_steps: int) -> None:
        """The last `num_steps` rows were over when the device was, `seconds` of waiting later: each gets its part."""
        for row in self._rows[-num_steps:] if num_steps else ():
            row.spent[phases.SYNC] += seconds / num_steps

    def note_evidence(self, seen: Mapping[str, Any]) -> None:
        """What the gate compares, at the end of a recorded step, by the field of a Run."""
        for name, one in seen.items():
            self._evidence[name].append(one)

    def phase_s(self) -> list[float]:
        """Mean seconds by phase of the recorded steps; zeros without one."""
        rows, _ = self._trained()
        return [sum(row.spent[i] for row in rows) / max(1, len(rows)) for i in range(len(PHASES))]

    def is_validation(self, stretch: Stretch) -> bool:
        """Of a step that is not recorded, compared with those that were recorded last."""
        rows = self._rows if self._thinning is None else self._thinning.rows()
        return validations([*(row.aside for row in rows[-_LOOKED_BACK_AT:]), stretch])[-1] is not None

    def start_s(self) -> float:
        """Mean seconds of the recorded steps for starting loaders; 0 without one."""
        rows, _ = self._trained()
        return sum(row.start_s for row in rows) / max(1, len(rows))

    def columns(self, *, measured: frozenset[int]) -> Mapping[str, Any]:
        """Fields of a Run. `measured`: phases that were seen at all; the others are None, never 0."""
        rows, others = self._trained()
        losses.read(rows)
        return {
            "first_steps_s": tuple(self.first_steps_s),
            "arm": tuple(row.arm for row in rows),
            "block": tuple(row.block for row in rows),
            "loss": tuple(as_number(sum(row.losses)) if row.losses else None for row in rows),
            **columns(rows, [row.spent for row in rows], measured),
            **{name: tuple(steps) for name, steps in self._evidence.items()},
            **others,
        }

    def _trained(self) -> tuple[list[StepSpans], dict[str, Any]]:
        """Rows without the time and the samples of validations, and the fields of a Run that no row has."""
        if self._thinning is not None:
            return self._thinning.trained()
        rows, found = set_aside(self._rows)
        return rows, _of_validations(found)


def _of_validations(found: Sequence[Stretch]) -> dict[str, Any]:
    """Fields of a Run, which add up."""
    return {
        "num_validations": len(found),
        "validation_s": sum(sum(stretch.spent) for stretch in found),
        "validation_input_s": sum(stretch.spent[phases.INPUT] for stretch in found),
    }


def set_aside(rows: list[StepSpans]) -> tuple[list[StepSpans], list[Stretch]]:
    """Rows without the time and the samples of validations, and these."""
    stretches = validations([row.aside for row in rows])
    trained = [row if stretch is None else without(row, stretch) for row, stretch in zip(rows, stretches, strict=True)]
    return trained, [stretch for stretch in stretches if stretch is not None]


def without(row: StepSpans, stretch: Stretch) -> StepSpans:
    """A step without the time and the samples of its validation."""
    return replace(
        row,
        aside=None,
        # Rounding of the clock must not make a phase negative.
        spent=[max(0.0, whole - part) for whole, part in zip(row.spent, stretch.spent, strict=True)],
        num_samples=row.num_samples - stretch.num_samples if row.num_samples is not None else None,
        num_forwards=max(0, row.num_forwards - stretch.num_looks),
    )


def validations(stretches: Sequence[Stretch | None]) -> list[Stretch | None]:
    """The stretch of each step -> the part of it that is a validation, and no part of training."""
    usual = median(stretch.num_looks if stretch is not None else 0 for stretch in stretches) if stretches else 0
    least = max(1, _FACTOR * usual)
    found = [one if one is not None and (one.num_looks >= least or one.num_samples) else None for one in stretches]
    if sum(stretch is not None for stretch in found) > _TRAINING_SHARE * len(stretches):
        return [None] * len(stretches)
    if not usual:
        return found
    # What each step has is training, in the steps with a validation as well.
    plain = [stretch for stretch, rare in zip(stretches, found, strict=True) if stretch is not None and rare is None]
    typical = [median(parts) for parts in zip(*(stretch.spent for stretch in plain), strict=True)]
    return [
        rare._replace(spent=[max(0.0, a - b) for a, b in zip(rare.spent, typical, strict=True)]) if rare else None
        for rare in found
    ]


class Thinning:
    """Laps of a run of any length -> a sample of blocks, each with the same chance to be in it, and sums over all.

    Everything is done for some hundred rows at once, between two steps.
    """

    def __init__(self) -> None:
        self._draw = random.Random(0)
        self._chunk: list[StepSpans] = []
        self._block: list[StepSpans] = []
        self._blocks: list[tuple[float, int, list[StepSpans]]] = []
        """A heap of (lot, number of the first step, rows)."""
        self._long = LongRun()
        self._validations = _of_validations(())

    def add(self, row: StepSpans) -> None:
        """A recorded step."""
        self._chunk.append(row)
        if len(self._chunk) == _CHUNK:
            self._flush()

    def trained(self) -> tuple[list[StepSpans], dict[str, Any]]:
        """The sample, and the fields of a Run that no sample can give."""
        return self.rows(), {"long": self._long, **self._validations}

    def rows(self) -> list[StepSpans]:
        """The sample, in its order."""
        self._flush()
        blocks = sorted(self._blocks, key=lambda one: one[1])
        return [row for block in (*(rows for *_, rows in blocks), self._block) for row in block]

    def _flush(self) -> None:
        chunk, self._chunk = self._chunk, []
        losses.read(chunk)
        trained, found = set_aside(chunk)
        self._validations = {name: self._validations[name] + more for name, more in _of_validations(found).items()}
        steps_s = [sum(row.spent) for row in trained]
        self._long = LongRun(
            num_steps=self._long.num_steps + len(trained),
            total_s=self._long.total_s + sum(steps_s),
            longest_s=max(self._long.longest_s, *steps_s, 0.0),
        )
        for row in trained:
            self._sample(row)

    def _sample(self, row: StepSpans) -> None:
        self._block.append(row)
        if len(self._block) == _BLOCK:
            heapq.heappush(self._blocks, (self._draw.random(), self._block[0].number, self._block))
            self._block = []
            if len(self._blocks) > _MOST_BLOCKS:
                heapq.heappop(self._blocks)
