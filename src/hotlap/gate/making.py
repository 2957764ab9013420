"""What updates are made of: gradients, the optimizer's own formula, and the statistics that forward passes keep.

The parameters' own movement hides much: Adam makes the same step of gradients of any size, a lost weight decay is a
thousandth of a step, and statistics of batch normalisation show only when the model is evaluated.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev

from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.gate.standing_out import Measure, common_updates, harm_in_all_or_first, in_a_part, in_first, log_ratios
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
# An angle of 17 degrees: bfloat16 turns a gradient by a hundredth, in deep nets by a few hundredths of a radian.
ANGLE_FLOOR = 0.3
# A nudge of one unit in the last place takes many more updates than these to change a gradient by a twentieth, also in
# a training that is chaotic.
AT_ONCE = 2


def harm(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where updates do not follow from their gradients, or gradients or statistics are others."""
    references = evidence.references(pairs)
    skipped = nothing_but_rounding(evidence)

    def gradients(mine: Update, other: Update) -> list[float]:
        found = log_ratios(mine.gradients, other.gradients)
        return [math.nan if p in skipped else ratio for p, ratio in enumerate(found)]

    loose = _unsteady(evidence, lambda mine, other: log_ratios(mine.buffers, other.buffers))
    # An average of weights grows with them; which parameter it is of is not known.
    rooms = rooms_of_residues(evidence)

    def ways(mine: Update, other: Update) -> list[float]:
        found = log_ratios(mine.buffers, other.buffers)
        room = max((rooms.get((mine.step, p), 0.0) for p in range(len(mine.norms))), default=0.0)
        return [math.nan if k in loose else without_room(ratio, room) for k, ratio in enumerate(found)]

    def moved(k: int, size: float) -> str:
        return f"{_name(pairs, k)} has moved {math.exp(size):.3g} times as far as as written."

    early = in_first(_alike(pairs), (), ways, floor=BUFFER_FLOOR, one_sided=False, num_records=AT_ONCE + 1)

    return (
        _against_formula(evidence)
        or _no_gradient(pairs)
        or harm_in_all_or_first(
            pairs,
            references,
            _losses_of_elements,
            lambda p, size: (
                f"{size:.1%} of the elements of the gradient of parameter {p} are 0 that are not as written."
            ),
            floor=FILLED_FLOOR,
            one_sided=True,
        )
        or harm_in_all_or_first(
            pairs,
            references,
            gradients,
            lambda p, size: f"The gradients of parameter {p} are {math.exp(size):.3g} times as large as as written.",
            floor=GRADIENT_FLOOR,
        )
        or _turned(pairs, references, skipped=skipped)
        or _still_buffers(pairs)
        or (harmed(moved(*early), by_chance=True) if early else None)
        or harm_in_all_or_first(pairs, references, ways, moved, floor=BUFFER_FLOOR)
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


def _turned(pairs: Sequence[Pair], references: Sequence[Pair], *, skipped: frozenset[int]) -> Ruling | None:
    """Gradients, or ways of what is not trained, that point elsewhere.

    At the first update both sides have the same weights: where they drew the same numbers, gradients point the same
    way. Later, trainings that differ by rounding may come to have nothing in common, a right angle, but no more.
    """

    def angles(mine: Update, other: Update) -> list[float]:
        both = zip(mine.directions or (), other.directions or (), strict=False)
        return [math.nan if p in skipped else _angle(a, b) for p, (a, b) in enumerate(both)]

    def beyond_right(mine: Update, other: Update) -> list[float]:
        return [angle - math.pi / 2 for angle in angles(mine, other)]

    early = in_first(_alike(pairs), (), angles, floor=ANGLE_FLOOR, one_sided=True)
    found = early or in_a_part(pairs, references, beyond_right, floor=ANGLE_FLOOR)
    if found is None:
        return None
    p, angle = found[0], found[1] + (0 if early else math.pi / 2)
    num_parameters = len((pairs[0].base.updates or ())[0].norms)
    what = f"The gradient of parameter {p}" if p < num_parameters else _name(pairs, p - num_parameters)
    return harmed(
        f"{what} points {math.degrees(angle):.0f} degrees away from where it points as written.", by_chance=True
    )


def _angle(mine: str | None, other: str | None) -> float:
    """Between two directions, in radians."""
    if mine is None or other is None:
        return math.nan
    return math.pi * (int(mine, 16) ^ int(other, 16)).bit_count() / (4 * len(mine))


def _alike(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that begin with the same batch and the same random numbers."""
    return [pair for pair in pairs if _first_draws(pair.base) == _first_draws(pair.lever)]


def _first_draws(run: Run) -> tuple[object, object]:
    return (run.batch_digest or (None,))[0], (run.rng_digest or (None,))[0]


def nothing_but_rounding(evidence: Evidence) -> frozenset[int]:
    """Parameters whose gradient is 0 but for rounding, so that its size means nothing: another kernel has another one.

    The bias of a convolution in front of a batch normalisation is such: whatever it is, the mean takes it out again.
    """
    return _unsteady(evidence, lambda mine, other: log_ratios(mine.gradients, other.gradients))


def _unsteady(evidence: Evidence, ratios: Measure) -> frozenset[int]:
    """What a nudge changes by a twentieth at once."""
    return frozenset(
        k
        for run in evidence.nudged
        for mine, other in common_updates(Pair(evidence.base[0], run))
        if mine.step <= AT_ONCE
        for k, ratio in enumerate(ratios(mine, other))
        if abs(ratio) > GRADIENT_FLOOR
    )


def without_room(ratio: float, room: float) -> float:
    """What is left of a growth (both logarithms); a shrinking is as it is."""
    return max(0.0, ratio - room) if ratio > 0 else ratio


Rooms = Mapping[tuple[int, int], float]
"""(step, parameter) -> by how much an update may grow (a logarithm)."""


def rooms_of_residues(evidence: Evidence) -> Rooms:
    """By how much updates may grow where a lever rounds more, from runs of the script as written alone.

    Adam makes a whole step of an element that is rounded to 1e-7, and none of 1e-11. A bias of queries, keys and values
    in one has such elements: what is added to all keys alike, the softmax takes out again. At worst each of them takes
    a whole step. How many there are is taken at the upper end of what the runs leave open (97.5%, runs being the unit
    of chance); and as large as a whole step was the largest update that the others ever made together.
    """
    runs = (*evidence.base, *evidence.nudged)
    shares = _by_parameter(runs, lambda update: update.residues)
    norms = _by_parameter(runs, lambda update: update.norms)
    rooms = {}
    for p, by_run in shares.items():
        share = _upper([fmean(found.values()) for found in by_run])
        if not FILLED_FLOOR < share < 1:
            continue
        whole = max((norm for found in norms.get(p, ()) for norm in found.values()), default=0.0)
        for step in {step for found in norms.get(p, ()) for step in found}:
            usual = fmean(found[step] for found in norms[p] if step in found)
            if usual > 0:
                rooms[step, p] = 0.5 * math.log1p(share / (1 - share) * (whole / usual) ** 2)
    return rooms


def _by_parameter(
    runs: Iterable[Run], numbers: Callable[[Update], Sequence[Number] | None]
) -> dict[int, list[dict[int, float]]]:
    """Parameter -> for each run that tells it: step -> number."""
    found: dict[int, list[dict[int, float]]] = {}
    for run in runs:
        mine: dict[int, dict[int, float]] = {}
        for update in run.updates or ():
            for p, number in enumerate(numbers(update) or ()):
                value = as_float(number)
                if value is not None and math.isfinite(value):
                    mine.setdefault(p, {})[update.step] = value
        for p, by_step in mine.items():
            found.setdefault(p, []).append(by_step)
    return found


def _upper(values: Sequence[float]) -> float:
    """Of the mean, with 97.5%; of one value it is that value."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return values[0]
    return fmean(values) + float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / math.sqrt(len(values))


def _still_buffers(pairs: Sequence[Pair]) -> Ruling | None:
    """A statistic, or an average, that moves as written stays where it was."""
    for pair in pairs:
        for mine, other in list(common_updates(pair))[-1:]:
            for k, (a, b) in enumerate(zip(mine.buffers or (), other.buffers or (), strict=False)):
                if len(mine.buffers or ()) == len(other.buffers or ()) and as_float(b) == 0 and (as_float(a) or 0) > 0:
                    return harmed(f"{_name(pairs, k)} is at step {mine.step} where it began; as written it moves.")
    return None


def _name(pairs: Sequence[Pair], k: int) -> str:
    """Of a tensor that is not trained."""
    names = pairs[0].base.untrained
    return f"{names[k]}, which is not trained," if k < len(names) else f"Buffer {k} of the model"


def _losses_of_elements(mine: Update, other: Update) -> list[float]:
    both = zip(mine.filled or (), other.filled or (), strict=False)
    found = [math.nan if a is None or b is None else a - b for a, b in both]
    return found or [math.nan] * len(mine.norms)
