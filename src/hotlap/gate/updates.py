"""Updates: the optimizer's own formula, their sizes, what stays as it is; and what they are made of and bring along.

The parameters' own movement hides much: Adam makes the same step of gradients of any size, a lost weight decay is a
thousandth of a step, and statistics of batch normalisation show only when the model is evaluated.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from hotlap.gate import gradients
from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.gate.rounding import AT_ONCE, FILLED_FLOOR, Rooms, rooms_of_residues, unsteady, without_room
from hotlap.gate.standing_out import (
    Of,
    Sides,
    Trait,
    common_updates,
    log_ratios,
    numbers_of,
    of_both,
    trained,
    untrained,
    without,
)
from hotlap.record import Number, Run, Update, as_float

# An update departs from its formula in float64 by rounding; kernels that keep the number of steps in float32 lose 6e-5
# of Adam's first bias correction (1 - 0.999). A weight decay of 0.01 on weights of 0.03 is 3e-4 of an update.
FORMULA_FLOOR = 1e-4
# Another kernel rounds each of ten or so operations, the baseline's kernel the same ones in another order.
FORMULA_MARGIN = 10.0
# Nobody tunes a learning rate to 2%; what a lever does below that no one would call another training.
NORM_FLOOR = 0.02
# One unit in a layer of a hundred: with fewer elements untouched, a unit that went dead by chance looks the same.
CHANGED_FLOOR = 0.01
# Of statistics that forward passes keep, and of averages of weights.
BUFFER_FLOOR = 0.05
# What has come this part of its way stands still.
STANDING = 1e-6


def looks(evidence: Evidence, pairs: Sequence[Pair]) -> Iterator[Ruling | None]:
    """HARMED where updates do not follow from their gradients, where gradients, statistics or the sizes of updates are
    others, or where elements that change in the baseline stay as they are.

    Elements that legitimately stay (rows of an embedding not in the batch, units that are off) stay on both sides. Of a
    gradient that is nothing but rounding the size of an update says nothing.
    """
    first_alike = gradients.alike_at_first(pairs)
    sides, alike = Sides(pairs, evidence.references(pairs)), Sides(first_alike)
    rounding = gradients.of_rounding(evidence)
    copies = _copies(evidence.base[0], rounding)
    rounding |= {len(evidence.base[0].trained) + k for k in copies}  # as directions have them
    rooms = rooms_of_residues(evidence)
    moves = _moves(evidence, pairs, rooms, copies)
    yield _against_formula(evidence, pairs)
    yield sides.harm_at_first(gradients.starts(pairs))
    only_rounded = all(pair.base is evidence.base[0] for pair in pairs)  # other contracts have other seeds
    as_long = [pair for pair in first_alike if only_rounded or pair.is_as_long()]
    yield gradients.other_first_loss(evidence, as_long)
    yield gradients.other_at_first(evidence, first_alike, rounding)
    yield sides.harm(_fewer(_filled, FILLED_FLOOR, "the gradient of ", "are 0 that are not", pairs))
    yield sides.harm(gradients.sizes(pairs, rounding))
    yield sides.harm_in_a_part(gradients.directions(pairs, rounding))
    yield _other_moves(pairs, moves)
    yield alike.harm_at_first(moves, num_records=AT_ONCE + 1)
    yield sides.harm(moves)
    yield _other_parameters(pairs, rounding)
    yield sides.harm(_fewer(lambda u: u.changed, CHANGED_FLOOR, "", "stay as they are that change", pairs))
    yield sides.harm(_sizes(pairs, rounding, rooms))


def _against_formula(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """An update departs from the optimizer's formula further than any of the baseline at that step."""

    def departures(runs: Iterable[Run]) -> Iterator[tuple[int, int, float]]:
        """What is not finite departs by all of the update."""
        for step, p, value in (one for run in runs for one in numbers_of(run, lambda update: update.departures)):
            yield step, p, value if math.isfinite(value) else 1.0

    usual: dict[tuple[int, int], float] = {}
    for step, p, departure in departures(evidence.baseline()):
        usual[step, p] = max(departure, usual.get((step, p), 0.0))
    for step, p, departure in departures(evidence.with_lever()):
        baseline = usual.get((step, p), math.inf)
        if departure > max(FORMULA_FLOOR, FORMULA_MARGIN * baseline):
            return harmed(
                f"The update of {trained(pairs, p)} at step {step} is {departure:.2g} of its size away from what "
                f"the optimizer's settings make of its gradient; in the baseline {baseline:.2g}."
            )
    return None


def _filled(update: Update) -> Sequence[Number] | None:
    """A parameter that has no gradient, where others have one, has none that is not 0."""
    known = [one for one in update.filled or () if one is not None]
    return [one or 0.0 for one in update.filled or ()] if known else None


def _fewer(of: Of, floor: float, what: str, are: str, pairs: Sequence[Pair]) -> Trait:
    """A part of the elements of each parameter that is smaller than in the baseline."""
    return Trait(
        measure=lambda mine, other: of_both(of(mine), of(other), lambda a, b: a - b) or [math.nan] * len(mine.norms),
        floor=floor,
        say=lambda p, size: f"{size:.1%} of the elements of {what}{trained(pairs, p)} {are} in the baseline.",
        one_sided=True,
    )


def _sizes(pairs: Sequence[Pair], rounding: frozenset[int], rooms: Rooms) -> Trait:
    """Of the update of each parameter, and in the last place of all together (the mean, so that each weighs the
    same)."""

    def measure(mine: Update, other: Update) -> list[float]:
        found = enumerate(log_ratios(mine.norms, other.norms))
        ratios = without(rounding, [without_room(ratio, rooms.get((mine.step, p), 0.0)) for p, ratio in found])
        known = [ratio for ratio in ratios if not math.isnan(ratio)]
        return [*ratios, fmean(known) if known else math.nan]

    def say(p: int, size: float) -> str:
        num_parameters = max(len(mine.norms) for pair in pairs for mine, _ in common_updates(pair))
        which = "of all parameters together" if p == num_parameters else f"of {trained(pairs, p)}"
        return f"The updates {which} are {math.exp(size):.3g} times as large as those of the baseline."

    return Trait(measure=measure, floor=NORM_FLOOR, say=say)


def _other_parameters(pairs: Sequence[Pair], rounding: frozenset[int]) -> Ruling | None:
    """Another number of parameters, norms that are not finite, or a frozen parameter that moves."""
    both = [(pair, mine, other) for pair in pairs for mine, other in common_updates(pair)]
    for pair, mine, other in both:
        if len(mine.norms) != len(other.norms):
            return harmed(
                f"{len(other.norms)} parameters are updated at step {other.step}; in the baseline {len(mine.norms)}."
            )
        for p, (was, became) in enumerate(zip(mine.norms, other.norms, strict=True)):
            baseline, norm = (math.nan if value is None else value for value in (as_float(was), as_float(became)))
            which = trained(pairs, p)
            if math.isfinite(baseline) and not math.isfinite(norm):
                return harmed(f"The update of {which} at step {mine.step} is not finite; in the baseline it is.")
            never = baseline == 0 and not any(u.norms[p] for u in pair.base.updates or ())
            if never and norm > 0 and p not in rounding:
                return harmed(f"At step {mine.step} {which} is updated; in the baseline it never is.")
    return None


def _copies(run: Run, parameters: frozenset[int]) -> frozenset[int]:
    """Which tensors that are not trained have names that end as those of these parameters: averages of them."""
    ends = tuple(f".{run.trained[p].partition('.')[2]}" for p in parameters if p < len(run.trained))
    return frozenset(k for k, name in enumerate(run.untrained) if name.endswith(ends))


def _way(mine: float, other: float) -> float:
    """log(other / mine); what stands still has come next to nothing of it."""
    return math.log(max(other / mine, STANDING)) if 0 < mine < math.inf and other < math.inf else math.nan


def _moves(evidence: Evidence, pairs: Sequence[Pair], rooms: Rooms, copies: frozenset[int]) -> Trait:
    """How far statistics and averages have moved, but for `copies`. An average of weights grows with them."""

    def ratios(mine: Update, other: Update) -> list[float]:
        return of_both(mine.buffers, other.buffers, _way)

    loose = copies | unsteady(evidence, ratios)

    def measure(mine: Update, other: Update) -> list[float]:
        room = max((rooms.get((mine.step, p), 0.0) for p in range(len(mine.norms))), default=0.0)
        return without(loose, [without_room(ratio, room) for ratio in ratios(mine, other)])

    def say(k: int, size: float) -> str:
        return f"{untrained(pairs, k)} has moved {math.exp(size):.3g} times as far as in the baseline."

    return Trait(measure=measure, floor=BUFFER_FLOOR, say=say)


def _other_moves(pairs: Sequence[Pair], moves: Trait) -> Ruling | None:
    """Where all losses are bit-equal, both sides have the same weights at each step: then what is made of them has come
    as far, at each step and in each run."""
    for pair in pairs:
        for mine, other in common_updates(pair) if pair.is_equal() else ():
            for k, ratio in enumerate(moves.measure(mine, other)):
                if abs(ratio) > BUFFER_FLOOR:
                    return harmed(f"{moves.say(k, ratio).removesuffix('.')}, by step {mine.step}.")
    return None
