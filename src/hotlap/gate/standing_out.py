"""A number for each parameter at some steps, with and without the lever -> the one that differs beyond chance."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.gate.draws import dropped
from hotlap.gate.evidence import Pair, Ruling, harmed, spent
from hotlap.record import Number, Run, Update, as_float
from hotlap.student import quantile

Table = NDArray[np.float64]

# The runs are cut into so many parts where a difference may come late, or go by.
NUM_PARTS = 6

Measure = Callable[[Update, Update], list[float]]
"""(update of the baseline, the same with the lever) -> a number for each parameter; NaN where there is none."""

Of = Callable[[Update], Sequence[Number] | None]
"""A number for each parameter."""

# Chance of a false alarm in all parameters together (the parameters share it), for independent steps.
FALSE_ALARM = 0.01
# Steps of one run are not independent: a run that drifted to another place keeps that. So a lever must stand out twice
# as far as the furthest of the baseline runs does by the very same measure.
BEYOND_BASELINE = 2.0
# With fewer records on both sides a mean has no known error, and only gross differences are named: a factor of two.
MIN_RECORDS = 3
GROSS = 0.69


def common_updates(pair: Pair) -> Iterator[tuple[Update, Update]]:
    """The updates that both recorded, by step."""
    theirs = {update.step: update for update in pair.lever.updates or ()}
    return ((mine, theirs[mine.step]) for mine in pair.base.updates or () if mine.step in theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """What is compared of each parameter, or of each tensor that is not trained, from update to update."""

    measure: Measure
    floor: float
    """A mean below it is nothing."""
    say: Callable[[int, float], str]
    """(which one, its mean) -> a sentence."""
    one_sided: bool = False
    """Below 0 it is no harm."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Runs with the lever beside those of the baseline, and what baseline runs differ in among themselves."""

    pairs: Sequence[Pair]
    references: Sequence[Pair] = ()

    def harm(self, trait: Trait) -> Ruling | None:
        """HARMED by what stands out in all records, or in the first of each pair.

        At its first update a run has the parameters of its partner still, so whatever differs there was done by the
        update.
        """
        return self._harm_in(trait, slice(None)) or self.harm_at_first(trait)

    def harm_at_first(self, trait: Trait, *, num_records: int = 1) -> Ruling | None:
        """HARMED by what stands out in the first records of each pair: where they keep what is dropped later, on both
        sides."""
        pairs = [pair for pair in self.pairs if dropped(pair.base) == dropped(pair.lever)]
        mine, theirs = (_table(some, trait, part=slice(num_records)) for some in (pairs, self.references))
        return _ruling(trait, mine, [theirs], chance=spent(FALSE_ALARM, len(pairs)))

    def harm_in_a_part(self, trait: Trait) -> Ruling | None:
        """HARMED by what stands out in some part of the records."""
        num_records = max((len(list(common_updates(pair))) for pair in self.pairs), default=0)
        bounds = [num_records * k // NUM_PARTS for k in range(NUM_PARTS + 1)]
        found = (self._harm_in(trait, part, num_parts=NUM_PARTS) for part in map(slice, bounds, bounds[1:]))
        return next(filter(None, found), None)

    def _harm_in(self, trait: Trait, part: slice, *, num_parts: int = 1) -> Ruling | None:
        """HARMED by what stands out in these records of all pairs, beside each of the references."""
        tables = [_table([reference], trait, part=part) for reference in self.references]
        chance = spent(FALSE_ALARM, len(self.pairs)) / num_parts
        return _ruling(trait, _table(self.pairs, trait, part=part), tables, chance=chance)


def _ruling(trait: Trait, table: Table, references: Sequence[Table], *, chance: float) -> Ruling | None:
    """HARMED by the parameter whose mean is furthest beyond chance and beyond all baseline runs."""
    num_records, num_parameters = table.shape
    means = _means(table, trait)
    if num_records < MIN_RECORDS:
        p = int(np.argmax(np.abs(means)))
        stands_out = bool(abs(means[p]) > GROSS)
    else:
        num_tests = num_parameters * (1 if trait.one_sided else 2)
        limit = quantile(num_records - 1, 1 - chance / num_tests)
        scores = _scores(table, trait, limit=limit)
        known = [one for one in references if len(one) >= MIN_RECORDS]
        usual = max((float(_scores(one, trait, limit=limit).max()) for one in known), default=0.0)
        p = int(np.argmax(scores))
        stands_out = bool(scores[p] > max(limit, BEYOND_BASELINE * usual))
    return harmed(trait.say(p, float(means[p])), by_chance=True) if stands_out else None


def _means(table: Table, trait: Trait) -> Table:
    """Mean of each column; one-sided: what is below 0 is none."""
    means = table.mean(axis=0) if len(table) else np.zeros(table.shape[1])
    return np.maximum(means, 0.0) if trait.one_sided else means


def _scores(table: Table, trait: Trait, *, limit: float) -> Table:
    """Means in units of their error; the error is never taken smaller than lets the floor pass."""
    error = table.std(axis=0, ddof=1) / np.sqrt(len(table))
    return np.asarray(np.abs(_means(table, trait)) / np.hypot(error, trait.floor / limit))


def _table(pairs: Sequence[Pair], trait: Trait, *, part: slice = slice(None)) -> Table:
    """(record, parameter) of the trait at each step at which both sides recorded the updates; what is not known is the
    mean of what is, or 0."""
    common = [list(common_updates(pair))[part] for pair in pairs]
    both = [(mine, other) for records in common for mine, other in records if len(mine.norms) == len(other.norms)]
    rows = [trait.measure(mine, other) for mine, other in both]
    # A module that is first called later brings its buffers then: what is there from the beginning is compared.
    width = min(map(len, rows), default=0)
    if not width:
        return np.zeros((0, 1))
    table = np.array([numbers[:width] for numbers in rows], dtype=float)
    means = np.nanmean(np.where(np.isnan(table).all(axis=0), 0.0, table), axis=0)
    return np.where(np.isnan(table), means, table)


def of_both(
    mine: Sequence[Number] | None, other: Sequence[Number] | None, compute: Callable[[float, float], float]
) -> list[float]:
    """`compute` of each number and its partner; NaN where one of them is not known, or nothing can be compared."""
    if mine is None or other is None or len(mine) != len(other):
        return [math.nan] * len(mine or ())
    both = zip(map(as_float, mine), map(as_float, other), strict=True)
    return [math.nan if a is None or b is None else compute(a, b) for a, b in both]


def log_ratios(mine: Sequence[Number] | None, other: Sequence[Number] | None) -> list[float]:
    """log(other / mine) of each; NaN also where one of them is not a positive number."""
    return of_both(mine, other, lambda a, b: math.log(b / a) if 0 < a < math.inf and 0 < b < math.inf else math.nan)


def numbers_of(run: Run, of: Of) -> Iterator[tuple[int, int, float]]:
    """(step, parameter, number) of each that is known."""
    for update in run.updates or ():
        for p, number in enumerate(of(update) or ()):
            value = as_float(number)
            if value is not None:
                yield update.step, p, value


def without(skipped: frozenset[int], numbers: Sequence[float]) -> list[float]:
    """The numbers, NaN in place of those skipped."""
    return [math.nan if k in skipped else number for k, number in enumerate(numbers)]


def trained(pairs: Sequence[Pair], p: int) -> str:
    """Name of a parameter."""
    names = pairs[0].base.trained
    return names[p] if p < len(names) else f"parameter {p}"


def untrained(pairs: Sequence[Pair], k: int) -> str:
    """Of a tensor that is not trained."""
    names = pairs[0].base.untrained
    return f"{names[k]}, which is not trained," if k < len(names) else f"Buffer {k} of the model"
