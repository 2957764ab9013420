"""How what models are given to train on is distributed (`Run.content`, `Run.between`), with and without the lever.

Draws from one distribution differ in it by chance alone. Draws that are frozen, or come from another distribution,
stay apart from those of the baseline over a whole run, long before a loss tells.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.gate.evidence import MIN_STEPS, Pair, Ruling, harmed, spent
from hotlap.record import Run
from hotlap.student import quantile

Table = NDArray[np.float64]

# Successive steps depend on each other (an epoch draws without replacement), blocks of them hardly.
NUM_BLOCKS = 12
# In all features of both kinds together.
FALSE_ALARM = 0.01
# Part of the deviation from step to step, and of the size, below which a mean is the same; of a variance, that of it.
MEAN_FLOOR, SIZE_FLOOR, VARIANCE_FLOOR = 0.1, 2e-3, 0.2
# What is larger or smaller by more is given in another form: scaled within the model, say.
OTHER_FORM = 1.5
# Squares of sums of elements have these places, and the length the first one (`hotlap.probe.sampling`).
SQUARES = slice(9, 13)
# Of one tensor; a model that is given several has as many of each.
NUM_FEATURES = 21
# The mean of squares of t with as many degrees of freedom as blocks less one.
_FREEDOM = NUM_BLOCKS - 1
_USUAL = _FREEDOM / (_FREEDOM - 2)


def harm(pairs: Sequence[Pair], references: Sequence[Pair]) -> Ruling | None:
    """HARMED where the mean of a feature, or its variance from step to step, is another one beyond chance, and beyond
    what baseline runs differ by among themselves."""
    for what, of in _KINDS.items():
        tables, known = _tables(pairs, of), _tables(references, of)
        num_features = min((mine.shape[1] for mine, _ in (*tables, *known)), default=0)
        for part in map(
            slice, range(0, num_features, NUM_FEATURES), range(NUM_FEATURES, num_features + 1, NUM_FEATURES)
        ):
            if len(tables) < len(pairs) or _is_other_form(pairs, part):
                continue
            some, others = ([(mine[:, part], other[:, part]) for mine, other in each] for each in (tables, known))
            for of_variance in (False, True):
                told = _apart(some, others, of_variance=of_variance, num_tensors=num_features // NUM_FEATURES)
                if told:
                    return harmed(f"{what} {told}.", by_chance=True)
    return None


_Rows = Callable[[Run], Sequence[tuple[float, ...] | None] | None]
_KINDS: Mapping[str, _Rows] = {
    "What models are given to train on": lambda run: run.content,
    "The distance between the two batches that models are given in a step": lambda run: run.between,
}


def _is_other_form(pairs: Sequence[Pair], part: slice) -> bool:
    """A tensor that models are given is much larger, or smaller: scaled within the model, say."""
    squares = slice(part.start + SQUARES.start, part.start + SQUARES.stop)
    tables = _tables(pairs, lambda run: run.content)
    sizes = [[float(table[:, squares].mean()) for table in both] for both in tables if both[0].shape[1] >= part.stop]
    return any(min(both) <= 0 or max(both) > OTHER_FORM * min(both) for both in sizes)


def _tables(pairs: Sequence[Pair], of: _Rows) -> list[tuple[Table, Table]]:
    """(step, feature) of both runs of each pair, where both know enough."""
    found = []
    for pair in pairs:
        rows = [row for row in pair.of_both(of) if None not in row]
        if len(rows) >= max(MIN_STEPS, NUM_BLOCKS):
            _, mine, other = zip(*rows, strict=True)
            width = min(map(len, (*mine, *other)))
            found.append((np.array([row[:width] for row in mine]), np.array([row[:width] for row in other])))
    return found


def _apart(
    tables: Sequence[tuple[Table, Table]],
    known: Sequence[tuple[Table, Table]],
    *,
    of_variance: bool,
    num_tensors: int,
) -> str:
    """What is otherwise, and by how much; "" where nothing is."""
    from scipy.special import fdtri

    gaps, scores, floors = _measured(tables, of_variance=of_variance)
    usual = np.ones(gaps.shape[1])
    if known:
        usual = np.maximum(1.0, np.sqrt((_measured(known, of_variance=of_variance)[1] ** 2).mean(axis=0) / _USUAL))
    num_pairs, num_features = scores.shape
    tail = spent(FALSE_ALARM, num_pairs) / (4 * num_features * num_tensors)
    # Each seed on its own, for what is frozen is another thing with each; and all together.
    # (Squares that share their error have a mean of at least what those that do not have.)
    each = np.sqrt((scores**2).mean(axis=0)) / usual / math.sqrt(fdtri(num_pairs, _FREEDOM, 1 - tail))
    together = np.abs(scores.mean(axis=0)) * math.sqrt(num_pairs) / usual / quantile(_FREEDOM, 1 - tail / 2)
    beyond = np.maximum(
        np.where(np.sqrt((gaps**2).mean(axis=0)) > floors, each, 0.0),
        np.where(np.abs(gaps.mean(axis=0)) > floors, together, 0.0),
    )
    if not beyond.max() > 1:
        return ""
    at = int(beyond.argmax())
    what = "varies otherwise from step to step" if of_variance else "is distributed otherwise"
    which = "the values of its elements" if at else "its length"
    times = f"{beyond[at]:.1f} times what chance explains, in {len(tables)} pairs of runs"
    return f"{what} than in the baseline ({which}: {times})"


def _measured(tables: Sequence[tuple[Table, Table]], *, of_variance: bool) -> tuple[Table, Table, Table]:
    """((pair, feature) gaps, the same in units of their errors, (feature,) what is nothing)."""
    gaps, scores, floors = [], [], []
    for mine, other in tables:
        if of_variance:
            floor = VARIANCE_FLOOR * mine.var(axis=0) + (SIZE_FLOOR * np.sqrt((mine**2).mean(axis=0))) ** 2
            mine, other = ((table - table.mean(axis=0)) ** 2 for table in (mine, other))  # noqa: PLW2901 - of those
        else:
            floor = MEAN_FLOOR * mine.std(axis=0) + SIZE_FLOOR * np.sqrt((mine**2).mean(axis=0))
        blocks = np.array([part.mean(axis=0) for part in np.array_split(other - mine, NUM_BLOCKS)])
        error = blocks.std(axis=0, ddof=1) / math.sqrt(NUM_BLOCKS)
        gap = blocks.mean(axis=0)
        gaps.append(gap)
        scores.append(np.divide(gap, error, out=np.zeros_like(gap), where=error > 0))
        floors.append(floor)
    return np.array(gaps), np.array(scores), np.mean(floors, axis=0)
