"""Updates of the parameters: of the same size, and reaching the same elements, as written and with the lever."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.record import Update, as_float

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.float64]
    Measure = Callable[[Update, Update], list[float]]

# Nobody tunes a learning rate to 2%; what a lever does below that no one would call another training.
NORM_FLOOR = 0.02
# One unit in a layer of a hundred: with fewer elements untouched, a unit that went dead by chance looks the same.
CHANGED_FLOOR = 0.01
# Chance of a false alarm in all parameters together (the parameters share it), for independent steps.
FALSE_ALARM = 0.01
# Steps of one run are not independent: a run that drifted to another place keeps that. So a lever must stand out twice
# as far as the furthest of the runs as written does by the very same measure.
BEYOND_AS_WRITTEN = 2.0
# With fewer records on both sides a mean has no known error, and only gross differences are named: a factor of two.
MIN_RECORDS = 3
GROSS = 0.69


def harm(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where updates are larger, smaller, or leave elements of a parameter as they are, compared to as written.

    Works on the mean, over the recorded steps, of log(norm / norm as written) and of the share of elements that changed
    as written but not here. Elements that legitimately stay (rows of an embedding not in the batch, units that are off)
    stay on both sides.
    """
    references = [Pair(evidence.base[0], run) for run in evidence.as_written()[1:]]
    for pair in pairs:
        ruling = _other_parameters(pair)
        if ruling:
            return ruling
    return _untouched(pairs, references) or _other_size(pairs, references)


def _other_parameters(pair: Pair) -> Ruling | None:
    """Another number of parameters, norms that are not finite, or a frozen parameter that moves."""
    for mine, other in _common(pair):
        if len(mine.norms) != len(other.norms):
            return harmed(
                f"{len(other.norms)} parameters are updated at step {other.step}; as written {len(mine.norms)}."
            )
        for p, (as_written, norm) in enumerate(zip(_floats(mine), _floats(other), strict=True)):
            if math.isfinite(as_written) and not math.isfinite(norm):
                return harmed(f"The update of parameter {p} at step {mine.step} is not finite; as written it is.")
            if as_written == 0 and norm > 0 and not any(u.norms[p] for u in pair.base.updates or ()):
                return harmed(f"Parameter {p} is updated at step {mine.step}; as written it never is.")
    return None


def _untouched(pairs: Sequence[Pair], references: Sequence[Pair]) -> Ruling | None:
    import numpy as np

    found = _in_all_or_first(pairs, references, _deficits, floor=CHANGED_FLOOR, one_sided=True)
    if found is None:
        return None
    p, size = found
    share = float(np.nanmean([mine.changed[p] for pair in pairs for mine, _ in _common(pair)]))
    return harmed(f"{size:.1%} of the elements of parameter {p} stay as they are; as written {share:.1%} change.")


def _other_size(pairs: Sequence[Pair], references: Sequence[Pair]) -> Ruling | None:
    found = _in_all_or_first(pairs, references, _log_ratios, floor=NORM_FLOOR, one_sided=False)
    if found is None:
        return None
    p, size = found
    num_parameters = max(len(mine.norms) for pair in pairs for mine, _ in _common(pair))
    which = "of all parameters together" if p == num_parameters else f"of parameter {p}"
    return harmed(f"The updates {which} are {math.exp(size):.3g} times as large as those as written.")


def _in_all_or_first(
    pairs: Sequence[Pair], references: Sequence[Pair], row: "Measure", *, floor: float, one_sided: bool
) -> tuple[int, float] | None:
    """What stands out in all records, or in the first of each pair.

    At its first update a run has the parameters of its partner still, so whatever differs there was done by the update.
    """
    everything = _standing_out(
        _table(pairs, row), [_table([r], row) for r in references], floor=floor, one_sided=one_sided
    )
    first = [_table(some, row, first_only=True) for some in (pairs, references)]
    return everything or _standing_out(first[0], first[1:], floor=floor, one_sided=one_sided)


def _standing_out(
    table: "Table", references: Sequence["Table"], *, floor: float, one_sided: bool
) -> tuple[int, float] | None:
    """(parameter, mean) of the parameter whose mean is furthest beyond chance and beyond all runs as written."""
    import numpy as np
    from scipy.special import stdtrit

    if table.shape[0] < MIN_RECORDS:
        means = _means(table, one_sided=one_sided)
        gross = int(np.argmax(np.abs(means))) if means.size else 0
        return (gross, float(means[gross])) if means.size and abs(means[gross]) > GROSS else None
    num_tests = table.shape[1] * (1 if one_sided else 2)
    limit = float(stdtrit(table.shape[0] - 1, 1 - FALSE_ALARM / num_tests))
    scores = _scores(table, limit=limit, floor=floor, one_sided=one_sided)
    usual = max(
        (_scores(r, limit=limit, floor=floor, one_sided=one_sided).max(initial=0.0) for r in references), default=0.0
    )
    p = int(np.argmax(scores))
    if scores[p] <= max(limit, BEYOND_AS_WRITTEN * float(usual)):
        return None
    return p, float(_means(table, one_sided=one_sided)[p])


def _means(table: "Table", *, one_sided: bool) -> "Table":
    """Mean of each column; one-sided: what is below 0 is none."""
    import numpy as np

    if table.size == 0:
        return np.zeros(0)
    means = np.nanmean(np.where(np.isnan(table).all(axis=0), 0.0, table), axis=0)
    return np.asarray(np.maximum(means, 0.0) if one_sided else means)


def _scores(table: "Table", *, limit: float, floor: float, one_sided: bool) -> "Table":
    """Means in units of their error; the error is never taken smaller than lets `floor` pass."""
    import numpy as np

    if table.shape[0] < MIN_RECORDS:
        return np.zeros(table.shape[1] if table.ndim > 1 else 0)
    filled = np.where(np.isnan(table), np.nanmean(np.where(np.isnan(table).all(axis=0), 0.0, table), axis=0), table)
    error = filled.std(axis=0, ddof=1) / np.sqrt(filled.shape[0])
    return np.asarray(np.abs(_means(table, one_sided=one_sided)) / np.hypot(error, floor / limit))


def _table(pairs: Sequence[Pair], row: "Measure", *, first_only: bool = False) -> "Table":
    """(record, parameter) of what `row` makes of each step at which both sides recorded the updates."""
    import numpy as np

    common = [list(_common(pair))[: 1 if first_only else None] for pair in pairs]
    rows = [row(mine, other) for records in common for mine, other in records if len(mine.norms) == len(other.norms)]
    return np.array(rows, dtype=float) if rows else np.zeros((0, 1))


def _deficits(mine: Update, other: Update) -> list[float]:
    return [a - b for a, b in zip(mine.changed, other.changed, strict=True)]


def _log_ratios(mine: Update, other: Update) -> list[float]:
    """Of each parameter, and in the last place of all together (the mean of them, so that each weighs the same)."""
    import numpy as np

    a, b = np.array(_floats(mine)), np.array(_floats(other))
    usable = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    ratios = np.full(len(a), np.nan)
    ratios[usable] = np.log(b[usable] / a[usable])
    return [*ratios.tolist(), float(ratios[usable].mean()) if usable.any() else float("nan")]


def _common(pair: Pair) -> Iterator[tuple[Update, Update]]:
    """The updates that both recorded, by step."""
    theirs = {update.step: update for update in pair.lever.updates or ()}
    return ((mine, theirs[mine.step]) for mine in pair.base.updates or () if mine.step in theirs)


def _floats(update: Update) -> list[float]:
    values = (as_float(norm) for norm in update.norms)
    return [float("nan") if value is None else value for value in values]
