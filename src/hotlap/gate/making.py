"""What updates are made of: gradients, the optimizer's own formula, and the statistics that forward passes keep.

The parameters' own movement hides much: Adam makes the same step of gradients of any size, a lost weight decay is a
thousandth of a step, and statistics of batch normalisation show only when the model is evaluated.
"""

import math
from collections.abc import Iterable, Sequence

from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.gate.standing_out import common_updates, in_all_or_first, log_ratios
from hotlap.record import Number, Run, Update, as_float

# An update departs from its formula in float64 by rounding; kernels that keep the number of steps in float32 lose 6e-5
# of Adam's first bias correction (1 - 0.999). A weight decay of 0.01 on weights of 0.03 is 3e-4 of an update.
FORMULA_FLOOR = 1e-4
# Another kernel rounds each of ten or so operations, one as written the same ones in another order.
FORMULA_MARGIN = 10.0
# bfloat16 rounds each factor by up to 0.4%; a twentieth in the size of a gradient is no rounding.
GRADIENT_FLOOR = 0.05
# One element in a hundred: float16 under a scaler that works loses fewer of a gradient.
FILLED_FLOOR = 0.01
BUFFER_FLOOR = 0.05
# A nudge of one unit in the last place takes many more updates than these to change a gradient by a twentieth, also in
# a training that is chaotic.
AT_ONCE = 2


def harm(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where updates do not follow from their gradients, or gradients or statistics are others."""
    references = [Pair(evidence.base[0], run) for run in evidence.as_written()[1:]]
    return (
        _against_formula(evidence)
        or _no_gradient(pairs)
        or _emptied(pairs, references)
        or _other_gradients(pairs, references, skipped=nothing_but_rounding(evidence))
        or _still_buffers(pairs)
        or _other_buffers(pairs, references)
    )


def _against_formula(evidence: Evidence) -> Ruling | None:
    """An update departs from the optimizer's formula further than any as written at that step."""
    usual: dict[tuple[int, int], float] = {}
    for step, p, departure in _departures(evidence.as_written()):
        usual[step, p] = max(departure, usual.get((step, p), 0.0))
    for step, p, departure in _departures(evidence.with_lever()):
        as_written = usual.get((step, p))
        if as_written is not None and departure > max(FORMULA_FLOOR, FORMULA_MARGIN * as_written):
            return harmed(
                f"The update of parameter {p} at step {step} is {departure:.2g} of its size away from what the "
                f"optimizer's settings make of its gradient; as written {as_written:.2g}."
            )
    return None


def _departures(runs: Iterable[Run]) -> Iterable[tuple[int, int, float]]:
    """(step, parameter, departure); not finite counts as all of it."""
    for run in runs:
        for update in run.updates or ():
            for p, number in enumerate(update.departures or ()):
                value = as_float(number)
                if value is not None:
                    yield update.step, p, value if math.isfinite(value) else 1.0


def _no_gradient(pairs: Sequence[Pair]) -> Ruling | None:
    """A parameter has no gradient where others have, and as written it has one that is not 0."""
    for pair in pairs:
        both = [(a.gradients, b.gradients, a.step) for a, b in common_updates(pair) if a.gradients and b.gradients]
        both = [(a, b, step) for a, b, step in both if len(a) == len(b) and any(x is not None for x in b)]
        for mine, other, step in both:
            for p in range(len(mine)):
                if (as_float(mine[p]) or 0) > 0 and other[p] is None:
                    return harmed(f"Parameter {p} has no gradient at step {step}; as written it has one.")
    return None


def _emptied(pairs: Sequence[Pair], references: Sequence[Pair]) -> Ruling | None:
    found = in_all_or_first(pairs, references, _losses_of_elements, floor=FILLED_FLOOR, one_sided=True)
    if found is None:
        return None
    return harmed(
        f"{found[1]:.1%} of the elements of the gradient of parameter {found[0]} are 0 that are not as written."
    )


def _other_gradients(pairs: Sequence[Pair], references: Sequence[Pair], *, skipped: frozenset[int]) -> Ruling | None:
    def ratios(mine: Update, other: Update) -> list[float]:
        found = _gradient_ratios(mine, other)
        return [math.nan if p in skipped else ratio for p, ratio in enumerate(found)]

    found = in_all_or_first(pairs, references, ratios, floor=GRADIENT_FLOOR, one_sided=False)
    if found is None:
        return None
    return harmed(f"The gradients of parameter {found[0]} are {math.exp(found[1]):.3g} times as large as as written.")


def nothing_but_rounding(evidence: Evidence) -> frozenset[int]:
    """Parameters whose gradient is 0 but for rounding, so that its size means nothing: another kernel has another one.

    The bias of a convolution in front of a batch normalisation is such: whatever it is, the mean takes it out again.
    """
    return frozenset(
        p
        for run in evidence.nudged
        for mine, other in common_updates(Pair(evidence.base[0], run))
        if mine.step <= AT_ONCE
        for p, ratio in enumerate(_gradient_ratios(mine, other))
        if abs(ratio) > GRADIENT_FLOOR
    )


def filled_by_rounding(pairs: Sequence[Pair]) -> frozenset[int]:
    """Parameters with elements whose gradient is 0 but for rounding, and under the lever for more rounding.

    Adam makes a whole step of an element that is rounded to 1e-7, and none of 1e-11. A bias of queries, keys and values
    in one has such elements: what is added to all keys alike, the softmax takes out again.
    """
    lost: dict[int, list[float]] = {}
    for pair in pairs:
        for mine, other in common_updates(pair):
            for p, (a, b) in enumerate(zip(mine.residues or (), other.residues or (), strict=False)):
                if a is not None and b is not None:
                    lost.setdefault(p, []).append(a - b)
    return frozenset(p for p, shares in lost.items() if math.fsum(shares) / len(shares) > FILLED_FLOOR)


def _still_buffers(pairs: Sequence[Pair]) -> Ruling | None:
    """A statistic that moves as written stays where it was."""
    for pair in pairs:
        last = [(mine, other) for mine, other in common_updates(pair) if _same_length(mine.buffers, other.buffers)][-1:]
        for mine, other in last:
            for k, (a, b) in enumerate(zip(mine.buffers or (), other.buffers or (), strict=True)):
                if as_float(b) == 0 and (as_float(a) or 0) > 0:
                    return harmed(
                        f"Buffer {k} of the model is at step {mine.step} where it began; as written it moves."
                    )
    return None


def _other_buffers(pairs: Sequence[Pair], references: Sequence[Pair]) -> Ruling | None:
    found = in_all_or_first(pairs, references, _buffer_ratios, floor=BUFFER_FLOOR, one_sided=False)
    if found is None:
        return None
    return harmed(f"Buffer {found[0]} of the model has moved {math.exp(found[1]):.3g} times as far as as written.")


def _losses_of_elements(mine: Update, other: Update) -> list[float]:
    if mine.filled is None or other.filled is None or len(mine.filled) != len(other.filled):
        return _nothing(mine)
    return [math.nan if a is None or b is None else a - b for a, b in zip(mine.filled, other.filled, strict=True)]


def _gradient_ratios(mine: Update, other: Update) -> list[float]:
    if not _same_length(mine.gradients, other.gradients):
        return _nothing(mine)
    return log_ratios(mine.gradients or (), other.gradients or ())


def _buffer_ratios(mine: Update, other: Update) -> list[float]:
    if not _same_length(mine.buffers, other.buffers):
        return [math.nan] * len(mine.buffers or ())
    return log_ratios(mine.buffers or (), other.buffers or ())


def _nothing(update: Update) -> list[float]:
    return [math.nan] * len(update.norms)


def _same_length(mine: Sequence[Number] | None, other: Sequence[Number] | None) -> bool:
    return mine is not None and other is not None and len(mine) == len(other) > 0
