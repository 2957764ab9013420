"""Updates, and what they are made of: gradients, the optimizer's own formula, statistics that forward passes keep.

The parameters' own movement hides much: Adam makes the same step of gradients of any size, a lost weight decay is a
thousandth of a step, and statistics of batch normalisation show only when the model is evaluated.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean, stdev

from hotlap.gate.evidence import Evidence, Pair, Ruling, first_certain, harmed
from hotlap.gate.rounding import AT_ONCE, FLOAT32_ULP, FLOOR_ULPS
from hotlap.gate.standing_out import Measure, Sides, Trait, common_updates, log_ratios, of_both
from hotlap.record import Number, Run, Update, as_float
from hotlap.student import quantile

Of = Callable[[Update], Sequence[Number] | None]
"""A number for each parameter."""

# An update departs from its formula in float64 by rounding; kernels that keep the number of steps in float32 lose 6e-5
# of Adam's first bias correction (1 - 0.999). A weight decay of 0.01 on weights of 0.03 is 3e-4 of an update.
FORMULA_FLOOR = 1e-4
# Another kernel rounds each of ten or so operations, the baseline's kernel the same ones in another order.
FORMULA_MARGIN = 10.0
# Nobody tunes a learning rate to 2%; what a lever does below that no one would call another training.
NORM_FLOOR = 0.02
# One unit in a layer of a hundred: with fewer elements untouched, a unit that went dead by chance looks the same.
CHANGED_FLOOR = 0.01
# bfloat16 rounds each factor by up to 0.4%; a twentieth in the size of a gradient is no rounding.
GRADIENT_FLOOR = 0.05
# A direction is told by 64 signs: one that rounding flips is an angle of 0.05, and three of them in the parameters that
# make most of a gradient are no rounding.
APART_FLOOR = 0.12
# Where the loss is the same to the rounding of float32, so is each parameter's gradient, as far as it is no rounding
# itself: below a thousandth of all of them. What bfloat16 leaves of a gradient that is exchanged is 0.4% away.
FIRST_FLOOR, FIRST_SHARE = 0.01, 1e-3
# One first loss in a hundred or two is the same by luck, though a lever rounds to bfloat16; those of so many seeds are
# not.
SURE_PAIRS = 3
# One element in a hundred: float16 under a scaler that works loses fewer of a gradient.
FILLED_FLOOR = 0.01
# bfloat16 leaves a loss in which thousands of terms are summed to a thousandth; other masks of a dropout do not.
SAME_LOSS = 1e-3
BUFFER_FLOOR = 0.05
# An angle of 17 degrees: bfloat16 turns a gradient by a hundredth, in deep nets by a few hundredths of a radian.
ANGLE_FLOOR = 0.3


def harm(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where updates do not follow from their gradients, where gradients, statistics or the sizes of updates are
    others, or where elements that change in the baseline stay as they are.

    Elements that legitimately stay (rows of an embedding not in the batch, units that are off) stay on both sides. Of a
    gradient that is nothing but rounding the size of an update says nothing.
    """
    return first_certain(_looks(evidence, pairs))


def _looks(evidence: Evidence, pairs: Sequence[Pair]) -> Iterator[Ruling | None]:
    first_alike = alike_at_first(pairs)
    sides, alike = Sides(pairs, evidence.references(pairs)), Sides(first_alike)
    rounding = _unsteady(evidence, lambda mine, other: log_ratios(mine.gradients, other.gradients))
    copies = _copies(evidence.base[0], rounding)
    rounding |= {len(evidence.base[0].trained) + k for k in copies}  # as directions have them
    rooms = rooms_of_residues(evidence)
    buffers = _buffers(evidence, pairs, rooms, copies)
    yield _against_formula(evidence, pairs)
    yield _no_gradient(pairs)
    yield _other_first_gradient(first_alike)
    yield sides.harm(_fewer(lambda u: u.filled, FILLED_FLOOR, "the gradient of ", "are 0 that are not", pairs))
    yield sides.harm(_gradients(pairs, rounding))
    yield alike.harm_at_first(_directions(pairs, rounding))
    yield sides.harm_in_a_part(_directions(pairs, rounding, beyond=math.pi / 2))
    yield _still_buffers(pairs)
    yield _other_buffers(pairs, buffers)
    yield alike.harm_at_first(buffers, num_records=AT_ONCE + 1)
    yield sides.harm(buffers)
    yield _other_parameters(pairs, rounding)
    yield sides.harm(_fewer(lambda u: u.changed, CHANGED_FLOOR, "", "stay as they are that change", pairs))
    yield sides.harm(_sizes(pairs, rounding, rooms))


def _against_formula(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """An update departs from the optimizer's formula further than any of the baseline at that step."""

    def departures(runs: Iterable[Run]) -> Iterator[tuple[int, int, float]]:
        """What is not finite departs by all of the update."""
        for step, p, value in (one for run in runs for one in _numbers(run, lambda update: update.departures)):
            yield step, p, value if math.isfinite(value) else 1.0

    usual: dict[tuple[int, int], float] = {}
    for step, p, departure in departures(evidence.baseline()):
        usual[step, p] = max(departure, usual.get((step, p), 0.0))
    for step, p, departure in departures(evidence.with_lever()):
        baseline = usual.get((step, p), math.inf)
        if departure > max(FORMULA_FLOOR, FORMULA_MARGIN * baseline):
            return harmed(
                f"The update of {_trained(pairs, p)} at step {step} is {departure:.2g} of its size away from what "
                f"the optimizer's settings make of its gradient; in the baseline {baseline:.2g}."
            )
    return None


def _numbers(run: Run, of: Of) -> Iterator[tuple[int, int, float]]:
    """(step, parameter, number) of each that is known."""
    for update in run.updates or ():
        for p, number in enumerate(of(update) or ()):
            value = as_float(number)
            if value is not None:
                yield update.step, p, value


def _no_gradient(pairs: Sequence[Pair]) -> Ruling | None:
    """A parameter has no gradient where others have, and in the baseline it has one that is not 0."""
    for mine, other in (both for pair in pairs for both in common_updates(pair)):
        theirs = other.gradients or ()
        if len(mine.gradients or ()) == len(theirs) and any(b is not None for b in theirs):
            for p, (a, b) in enumerate(zip(mine.gradients or (), theirs, strict=True)):
                if (as_float(a) or 0) > 0 and b is None:
                    which = _trained(pairs, p)
                    return harmed(f"At step {mine.step} {which} has no gradient; in the baseline it has one.")
    return None


def _other_first_gradient(alike: Sequence[Pair]) -> Ruling | None:
    """At its first update a run has its partner's weights, and where it had the same draws and found the same loss, its
    gradient. Of a parameter's rounding may leave little; of all together, bfloat16 leaves 99%. Where the loss is the
    same but for the rounding of float32, both went forward alike, and gradients point the same way as well: what comes
    through a `detach` that was lost, or added, shows here alone."""
    same = all(abs(pair.first_loss_gap()) <= FLOOR_ULPS * FLOAT32_ULP for pair in alike)
    by_luck = len(alike) < SURE_PAIRS
    for pair in alike:
        mine, other = next(common_updates(pair), (None, None))
        if mine is None or other is None:
            continue
        is_first = mine.step == pair.base.step_index[0] == pair.lever.step_index[0]
        if not (is_first and _same_first_loss(pair)):
            continue
        ratio = _whole(other, mine) / (_whole(mine, other) or math.nan)
        if 0 < ratio < math.inf and abs(math.log(ratio)) > GRADIENT_FLOOR:
            return harmed(
                f"The first gradient, of all parameters together, is {ratio:.3g} times as large as in the "
                "baseline, with the same batch, random numbers and loss."
            )
        if not same:
            continue
        if (apart := _apart(mine, other)) > APART_FLOOR:
            return harmed(
                f"The first gradient, of all parameters together, is {apart:.0%} of its size away from that of the "
                "baseline, with the same batch, random numbers and loss.",
                by_chance=by_luck,
            )
        for p, gap in _projected_apart(mine, other):
            return harmed(
                f"The first gradient of {_trained(alike, p)} is {gap:.1%} of its size away from that of the baseline, "
                "with the same batch, random numbers and loss.",
                by_chance=by_luck,
            )
    return None


def _projected_apart(mine: Update, other: Update) -> Iterator[tuple[int, float]]:
    """(parameter, distance of its gradients as a part of the first one) where that is more than rounding."""
    least = FIRST_SHARE * _whole(mine, other)
    both = zip(mine.projections or (), other.projections or (), mine.gradients or (), strict=False)
    for p, (a, b, size) in enumerate(both):
        norm = as_float(size)
        if a is None or b is None or norm is None or not math.hypot(*a) > 0:
            continue
        gap = math.dist(a, b) / math.hypot(*a)
        if gap > FIRST_FLOOR and gap * norm > least:
            yield p, gap


def _apart(mine: Update, other: Update) -> float:
    """Size of the difference of two gradients, of all parameters of which size and direction are known in both, as a
    part of the first one's; 0 where none is. What is 0 but for rounding counts for nothing beside the others."""
    squares = of_both(mine.gradients, other.gradients, lambda a, b: a * a + b * b)
    products = of_both(mine.gradients, other.gradients, lambda a, b: 2 * a * b)
    gaps = [x - y * math.cos(angle) for x, y, angle in zip(squares, products, _angles(mine, other), strict=False)]
    known = [gap for gap in gaps if not math.isnan(gap)]
    return math.sqrt(max(0.0, math.fsum(known))) / (_whole(mine, other) or math.inf)


def _same_first_loss(pair: Pair) -> bool:
    return abs(pair.first_loss_gap()) <= SAME_LOSS


def _whole(update: Update, beside: Update) -> float:
    """Size of the gradient of all parameters that have one in both."""
    both = zip(update.gradients or (), beside.gradients or (), strict=False)
    return math.hypot(*(as_float(a) or 0.0 for a, b in both if None not in (a, b)))


def _gradients(pairs: Sequence[Pair], rounding: frozenset[int]) -> Trait:
    return Trait(
        measure=lambda mine, other: _without(rounding, log_ratios(mine.gradients, other.gradients)),
        floor=GRADIENT_FLOOR,
        say=lambda p, size: (
            f"The gradients of {_trained(pairs, p)} are {math.exp(size):.3g} times as large as in the baseline."
        ),
    )


def _directions(pairs: Sequence[Pair], rounding: frozenset[int], *, beyond: float = 0.0) -> Trait:
    """Gradients, or ways of what is not trained, that point elsewhere, by more than an angle.

    At the first update both sides have the same weights: where they drew the same numbers, gradients point the same
    way. Later, trainings that differ by rounding may come to have nothing in common, a right angle, but no more.
    """

    def measure(mine: Update, other: Update) -> list[float]:
        return _without(rounding, [angle - beyond for angle in _angles(mine, other)])

    def say(p: int, angle: float) -> str:
        num_parameters = len((pairs[0].base.updates or ())[0].norms)
        what = f"The gradient of {_trained(pairs, p)}" if p < num_parameters else _name(pairs, p - num_parameters)
        return f"{what} points {math.degrees(angle + beyond):.0f} degrees away from where it points in the baseline."

    return Trait(measure=measure, floor=ANGLE_FLOOR, say=say, one_sided=True)


def _copies(run: Run, parameters: frozenset[int]) -> frozenset[int]:
    """Which tensors that are not trained have names that end as those of these parameters: averages of them."""
    ends = tuple(f".{run.trained[p].partition('.')[2]}" for p in parameters if p < len(run.trained))
    return frozenset(k for k, name in enumerate(run.untrained) if name.endswith(ends))


def _buffers(evidence: Evidence, pairs: Sequence[Pair], rooms: "Rooms", copies: frozenset[int]) -> Trait:
    """How far statistics and averages have moved, but for `copies`. An average of weights grows with them."""
    loose = copies | _unsteady(evidence, lambda mine, other: log_ratios(mine.buffers, other.buffers))

    def measure(mine: Update, other: Update) -> list[float]:
        room = max((rooms.get((mine.step, p), 0.0) for p in range(len(mine.norms))), default=0.0)
        return _without(loose, [_without_room(ratio, room) for ratio in log_ratios(mine.buffers, other.buffers)])

    def say(k: int, size: float) -> str:
        return f"{_name(pairs, k)} has moved {math.exp(size):.3g} times as far as in the baseline."

    return Trait(measure=measure, floor=BUFFER_FLOOR, say=say)


def _fewer(of: Of, floor: float, what: str, are: str, pairs: Sequence[Pair]) -> Trait:
    """A part of the elements of each parameter that is smaller than in the baseline."""
    return Trait(
        measure=lambda mine, other: of_both(of(mine), of(other), lambda a, b: a - b) or [math.nan] * len(mine.norms),
        floor=floor,
        say=lambda p, size: f"{size:.1%} of the elements of {what}{_trained(pairs, p)} {are} in the baseline.",
        one_sided=True,
    )


def _sizes(pairs: Sequence[Pair], rounding: frozenset[int], rooms: "Rooms") -> Trait:
    """Of the update of each parameter, and in the last place of all together (the mean, so that each weighs the
    same)."""

    def measure(mine: Update, other: Update) -> list[float]:
        found = enumerate(log_ratios(mine.norms, other.norms))
        ratios = _without(rounding, [_without_room(ratio, rooms.get((mine.step, p), 0.0)) for p, ratio in found])
        known = [ratio for ratio in ratios if not math.isnan(ratio)]
        return [*ratios, fmean(known) if known else math.nan]

    def say(p: int, size: float) -> str:
        num_parameters = max(len(mine.norms) for pair in pairs for mine, _ in common_updates(pair))
        which = "of all parameters together" if p == num_parameters else f"of {_trained(pairs, p)}"
        return f"The updates {which} are {math.exp(size):.3g} times as large as those of the baseline."

    return Trait(measure=measure, floor=NORM_FLOOR, say=say)


def _without(skipped: frozenset[int], numbers: Sequence[float]) -> list[float]:
    return [math.nan if k in skipped else number for k, number in enumerate(numbers)]


def _other_parameters(pairs: Sequence[Pair], rounding: frozenset[int]) -> Ruling | None:
    """Another number of parameters, norms that are not finite, or a frozen parameter that moves."""
    both = [(pair, mine, other) for pair in pairs for mine, other in common_updates(pair)]
    for pair, mine, other in both:
        if len(mine.norms) != len(other.norms):
            return harmed(
                f"{len(other.norms)} parameters are updated at step {other.step}; in the baseline {len(mine.norms)}."
            )
        for p, (baseline, norm) in enumerate(zip(_floats(mine), _floats(other), strict=True)):
            which = _trained(pairs, p)
            if math.isfinite(baseline) and not math.isfinite(norm):
                return harmed(f"The update of {which} at step {mine.step} is not finite; in the baseline it is.")
            never = baseline == 0 and not any(u.norms[p] for u in pair.base.updates or ())
            if never and norm > 0 and p not in rounding:
                return harmed(f"At step {mine.step} {which} is updated; in the baseline it never is.")
    return None


def _floats(update: Update) -> list[float]:
    values = (as_float(norm) for norm in update.norms)
    return [math.nan if value is None else value for value in values]


def _angles(mine: Update, other: Update) -> list[float]:
    """Between the directions of each parameter, and of each tensor that is not trained."""
    return [_angle(a, b) for a, b in zip(mine.directions or (), other.directions or (), strict=False)]


def _angle(mine: str | None, other: str | None) -> float:
    """Between two directions, in radians."""
    if mine is None or other is None:
        return math.nan
    return math.pi * (int(mine, 16) ^ int(other, 16)).bit_count() / (4 * len(mine))


def alike_at_first(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that begin with the same batch and the same random numbers. None where forward passes draw them and a first
    loss is another one: samples in another order meet other draws, as in a dropout."""
    alike = same_first_draws(pairs)
    return alike if all(_same_first_loss(pair) or not draws_forward(pair.base) for pair in alike) else []


def same_first_draws(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that begin with the same batch and the same random numbers."""
    return [pair for pair in pairs if _first_draws(pair.base) == _first_draws(pair.lever)]


def draws_forward(run: Run) -> bool:
    """Its first forward passes with gradients draw random numbers."""
    return bool(run.draws and run.draws[0][0])


def _first_draws(run: Run) -> tuple[object, object]:
    return (run.batch_digest or (None,))[0], (run.rng_digest or (None,))[0]


def _unsteady(evidence: Evidence, ratios: Measure) -> frozenset[int]:
    """What a nudge changes by a twentieth at once: it is 0 but for rounding, so its size means nothing.

    The gradient of the bias of a convolution in front of a batch normalisation is such: whatever it is, the mean takes
    it out again.
    """
    return frozenset(
        k
        for run in evidence.perturbed
        for mine, other in common_updates(Pair(evidence.base[0], run))
        if mine.step <= AT_ONCE
        for k, ratio in enumerate(ratios(mine, other))
        if abs(ratio) > GRADIENT_FLOOR
    )


def _without_room(ratio: float, room: float) -> float:
    """What is left of a growth (both logarithms); a shrinking is as it is."""
    return max(0.0, ratio - room) if ratio > 0 else ratio


Rooms = Mapping[tuple[int, int], float]
"""(step, parameter) -> by how much an update may grow (a logarithm)."""


def rooms_of_residues(evidence: Evidence) -> Rooms:
    """By how much updates may grow where a lever rounds more, from runs of the baseline alone.

    Adam makes a whole step of an element that is rounded to 1e-7, and none of 1e-11. A bias of queries, keys and values
    in one has such elements: what is added to all keys alike, the softmax takes out again. At worst each of them takes
    a whole step. How many there are is taken at the upper end of what the runs leave open (97.5%, runs being the unit
    of chance); and as large as a whole step was the largest update that the others ever made together.
    """
    runs = (*evidence.base, *evidence.perturbed)
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


def _by_parameter(runs: Iterable[Run], of: Of) -> dict[int, list[dict[int, float]]]:
    """Parameter -> for each run that tells it: step -> number."""
    found: dict[int, dict[int, dict[int, float]]] = {}
    for k, run in enumerate(runs):
        for step, p, value in _numbers(run, of):
            if math.isfinite(value):
                found.setdefault(p, {}).setdefault(k, {})[step] = value
    return {p: list(by_run.values()) for p, by_run in found.items()}


def _upper(values: Sequence[float]) -> float:
    """Of the mean, with 97.5%; of one value it is that value."""
    if len(values) < 2:
        return values[0]
    return fmean(values) + quantile(len(values) - 1, 0.975) * stdev(values) / math.sqrt(len(values))


def _other_buffers(pairs: Sequence[Pair], buffers: Trait) -> Ruling | None:
    """Where all losses are bit-equal, both sides have the same weights at each step: then what is made of them has come
    as far, at each step and in each run."""
    for pair in pairs:
        for mine, other in common_updates(pair) if pair.is_equal() else ():
            for k, ratio in enumerate(buffers.measure(mine, other)):
                if abs(ratio) > BUFFER_FLOOR:
                    return harmed(f"{buffers.say(k, ratio).removesuffix('.')}, by step {mine.step}.")
    return None


def _still_buffers(pairs: Sequence[Pair]) -> Ruling | None:
    """A statistic, or an average, that moves in the baseline stays where it was."""
    for pair in pairs:
        for mine, other in list(common_updates(pair))[-1:]:
            for k, (a, b) in enumerate(zip(mine.buffers or (), other.buffers or (), strict=False)):
                if len(mine.buffers or ()) == len(other.buffers or ()) and as_float(b) == 0 and (as_float(a) or 0) > 0:
                    return harmed(f"{_name(pairs, k)} is at step {mine.step} where it began; in the baseline it moves.")
    return None


def _trained(pairs: Sequence[Pair], p: int) -> str:
    """Name of a parameter."""
    names = pairs[0].base.trained
    return names[p] if p < len(names) else f"parameter {p}"


def _name(pairs: Sequence[Pair], k: int) -> str:
    """Of a tensor that is not trained."""
    names = pairs[0].base.untrained
    return f"{names[k]}, which is not trained," if k < len(names) else f"Buffer {k} of the model"
