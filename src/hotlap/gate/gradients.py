"""Gradients: one that is lost, of another size, or that points elsewhere."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice

from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.gate.rounding import FLOAT32_ULP, FLOOR_ULPS, GRADIENT_FLOOR, explained_at_once, unsteady
from hotlap.gate.standing_out import Trait, common_updates, log_ratios, trained, untrained, without
from hotlap.record import Run, Update, as_float

# Where the loss is the same to the rounding of float32, so is each parameter's gradient, as far as it is no rounding
# itself: below a thousandth of all of them. What bfloat16 leaves of a gradient that is exchanged is 0.4% away.
FIRST_FLOOR, FIRST_SHARE = 0.01, 1e-3
# Autocast to bfloat16 takes a gradient by that floor or more no further than 3 times as far as a unit of bfloat16 in
# each parameter does, in 33 cases: convolutions, transformers, recurrent nets and perceptrons of 3 to 12 layers (in
# convolutions over small batches by a tenth, or a half). Projections know both distances to a quarter. (Where a unit
# flips in one run and not in the next it is more: three runs without that, then ten with it, are a case in a thousand.)
BFLOAT16_MARGIN = 5.0
# One first loss in a hundred or two is the same by luck, though a lever rounds to bfloat16; those of so many seeds are
# not. And seldom does rounding take a gradient that is more than rounding further away than `ANGLE_FLOOR`.
SURE_PAIRS = 3
# bfloat16 leaves a loss in which thousands of terms are summed to a thousandth; other masks of a dropout do not.
SAME_LOSS = 1e-3
# bfloat16 leaves sums of data, and squares of them, to some ten-thousandths; other draws of an augmentation do not.
SAME_DATA = 1e-3
# An angle of 17 degrees, where it is not known how far bfloat16 turns a gradient.
ANGLE_FLOOR = 0.3

_Updates = tuple[Update, Update]
_First = tuple[Pair, Update, Update]


def other_first_loss(evidence: Evidence, alike: Sequence[Pair]) -> Ruling | None:
    """With the same weights, data and draws, in numbers as long, a first loss is the same but for rounding."""
    gap = min((abs(pair.first_loss_gap()) for pair in alike), default=0.0)
    explained = explained_at_once(evidence) if gap else math.inf
    if not gap > explained:
        return None
    return harmed(
        f"The first loss is {gap:.2g} of it away from that of the baseline, before any update, with the same data and "
        f"random numbers; rounding alone explains {explained:.2g}.",
        by_chance=True,
    )


def other_at_first(evidence: Evidence, alike: Sequence[Pair], rounding: frozenset[int]) -> Ruling | None:
    """At its first update a run has its partner's weights, and where it had the same data and draws, its gradient. Of a
    parameter's rounding may leave little; of all together, bfloat16 leaves 99%. Where the loss is the same but for the
    rounding of float32, both went forward alike, and gradients point the same way as well: what comes through a
    `detach` that was lost, or added, shows here alone. Where it is not, what bfloat16 does to gradients of this script
    must explain the distance: a mask that leaks moves no loss before it was learnt what to make of that.
    Every pair must show it: in a small net one unit that rounding takes across 0 may be a tenth of a gradient.
    """
    firsts = [(pair, *both) for pair in alike for both in islice(common_updates(pair), 1)]
    firsts = [one for one in firsts if one[1].step == one[0].base.step_index[0] == one[0].lever.step_index[0]]
    same = all(abs(pair.first_loss_gap()) <= FLOOR_ULPS * FLOAT32_ULP for pair in alike)
    seconds = (both for run in evidence.rounded for both in common_updates(Pair(evidence.base[0], run)))
    rounded = [] if same else [both for both in seconds if both[0].step == 1]
    return _other_size_at_first(firsts, rounded, same=same) or _elsewhere_at_first(firsts, rounded, rounding, same=same)


def _other_size_at_first(firsts: Sequence[_First], rounded: Sequence[_Updates], *, same: bool) -> Ruling | None:
    growths = [_growth(mine, other) if _same_first_loss(pair) else 0.0 for pair, mine, other in firsts]
    least = max([GRADIENT_FLOOR, *(BFLOAT16_MARGIN * abs(_growth(*both)) for both in rounded)])
    if not min(map(abs, growths), default=0.0) > least:
        return None
    return harmed(
        f"The first gradient, of all parameters together, is {math.exp(growths[0]):.3g} times as large as in the "
        "baseline, with the same batch, random numbers and loss.",
        by_chance=not (same or rounded),
    )


def _elsewhere_at_first(
    firsts: Sequence[_First], rounded: Sequence[_Updates], rounding: frozenset[int], *, same: bool
) -> Ruling | None:
    limits: dict[int, float] = {}
    for p, gap, _ in (one for both in rounded for one in _apart(*both)):
        limits[p] = max(limits.get(p, FIRST_FLOOR), BFLOAT16_MARGIN * gap)
    gaps: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for p, gap, share in (one for _, mine, other in firsts for one in _apart(mine, other)):
        if gap * share > FIRST_SHARE and (same or p not in rounding):
            gaps[p].append((gap, share))
    in_all = ((p, *min(found)) for p, found in gaps.items() if len(found) == len(firsts))
    for p, gap, share in in_all:
        limit = FIRST_FLOOR if same else limits.get(p, ANGLE_FLOOR)
        if gap > limit:
            loss = " and loss" if same else f"; bfloat16 explains {limit:.1%}" if rounded else ""
            certain = len(firsts) >= SURE_PAIRS or (gap > ANGLE_FLOOR and share > FIRST_SHARE)
            return harmed(
                f"The first gradient of {trained([firsts[0][0]], p)} is {gap:.1%} of its size away from that of the "
                f"baseline, with the same batch, random numbers{loss}.",
                by_chance=not (same and certain),
            )
    return None


def _growth(mine: Update, other: Update) -> float:
    """Logarithm of the ratio of both gradients, of all parameters together; 0 where it is not known."""
    sizes = _whole(mine, other), _whole(other, mine)
    return math.log(sizes[1] / sizes[0]) if all(0 < size < math.inf for size in sizes) else 0.0


def _apart(mine: Update, other: Update) -> Iterator[tuple[int, float, float]]:
    """(parameter, distance of its gradients as a part of the first one, that one as a part of all gradients)."""
    whole = _whole(mine, other)
    both = zip(mine.projections or (), other.projections or (), mine.gradients or (), strict=False)
    for p, (a, b, size) in enumerate(both):
        norm = as_float(size)
        if a is not None and b is not None and norm is not None and math.hypot(*a) > 0 and whole > 0:
            yield p, math.dist(a, b) / math.hypot(*a), norm / whole


def _same_first_loss(pair: Pair) -> bool:
    return abs(pair.first_loss_gap()) <= SAME_LOSS


def _whole(update: Update, beside: Update) -> float:
    """Size of the gradient of all parameters that have one in both."""
    both = zip(update.gradients or (), beside.gradients or (), strict=False)
    return math.hypot(*(as_float(a) or 0.0 for a, b in both if None not in (a, b)))


def of_rounding(evidence: Evidence) -> frozenset[int]:
    """Parameters whose gradient is nothing but rounding, by its size or its direction: of hundreds of elements that are
    drawn anew the size stays within a twentieth. (And what is not trained that turns as they do.)"""
    by_size = unsteady(evidence, lambda mine, other: log_ratios(mine.gradients, other.gradients))
    return by_size | unsteady(evidence, _angles, floor=ANGLE_FLOOR)


def sizes(pairs: Sequence[Pair], rounding: frozenset[int]) -> Trait:
    """Of the gradient of each parameter, but for those that are `rounding`."""
    return Trait(
        measure=lambda mine, other: without(rounding, log_ratios(mine.gradients, other.gradients)),
        floor=GRADIENT_FLOOR,
        say=lambda p, size: (
            f"The gradients of {trained(pairs, p)} are {math.exp(size):.3g} times as large as in the baseline."
        ),
    )


def directions(pairs: Sequence[Pair], rounding: frozenset[int]) -> Trait:
    """Gradients, or ways of what is not trained, that point backwards, in radians beyond a right angle: trainings that
    differ by rounding may come to have nothing in common, which is that angle, but no more."""

    def measure(mine: Update, other: Update) -> list[float]:
        return without(rounding, [angle - math.pi / 2 for angle in _angles(mine, other)])

    def say(p: int, angle: float) -> str:
        num_parameters = len((pairs[0].base.updates or ())[0].norms)
        what = f"The gradient of {trained(pairs, p)}" if p < num_parameters else untrained(pairs, p - num_parameters)
        return f"{what} points {90 + math.degrees(angle):.0f} degrees away from where it points in the baseline."

    return Trait(measure=measure, floor=ANGLE_FLOOR, say=say, one_sided=True)


def _angles(mine: Update, other: Update) -> list[float]:
    """Between the directions of each parameter, and of each tensor that is not trained, in radians."""
    return [
        math.nan if a is None or b is None else math.pi * (int(a, 16) ^ int(b, 16)).bit_count() / (4 * len(a))
        for a, b in zip(mine.directions or (), other.directions or (), strict=False)
    ]


def alike_at_first(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that begin with the same data and the same random numbers. None where forward passes draw more than what is
    to be dropped, and a first loss is another one: samples in another order meet other draws."""
    alike = [pair for pair in same_first_draws(pairs) if _same_first_data(pair)]
    drawn = [pair for pair in alike if _draws_to_keep(pair.base) or _draws_to_keep(pair.lever)]
    return alike if all(map(_same_first_loss, drawn)) else []


def same_first_draws(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that begin with the same weights, batch and random numbers."""
    same = [pair for pair in pairs if _first_draws(pair.base) == _first_draws(pair.lever)]
    firsts = [islice(common_updates(pair), 1) for pair in same]
    ratios = [[ratio for mine, other in first for ratio in log_ratios(mine.starts, other.starts)] for first in firsts]
    return [pair for pair, found in zip(same, ratios, strict=True) if not any(abs(one) > SAME_DATA for one in found)]


def starts(pairs: Sequence[Pair]) -> Trait:
    """Sizes of the weights before the first update: layers that are made in another order have other ones, as large."""
    return Trait(
        measure=lambda mine, other: log_ratios(mine.starts, other.starts),
        floor=GRADIENT_FLOOR,
        say=lambda p, size: f"{trained(pairs, p)} begins {math.exp(size):.3g} times as large as in the baseline.",
    )


def draws_forward(run: Run) -> bool:
    """Its first forward passes with gradients draw random numbers."""
    return bool(run.draws and run.draws[0][0])


def _draws_to_keep(run: Run) -> bool:
    return draws_forward(run) and (run.dropouts is None or any(drops is None for drops, *_ in run.dropouts))


def _same_first_data(pair: Pair) -> bool:
    """What models are given is the same but for rounding. Two draws in another order leave generators as they were."""
    mine, other = ((run.content or (None,))[0] or () for run in (pair.base, pair.lever))
    both = list(zip(mine, other, strict=False))
    return math.dist(*zip(*both, strict=True)) <= SAME_DATA * math.hypot(*mine) if both else True


def _first_draws(run: Run) -> tuple[object, object, bool]:
    """The last one: what torch.compile made drops elements in the first steps as well."""
    drops = draws_forward(run) and run.dropouts is None
    return (run.batch_digest or (None,))[0], (run.rng_digest or (None,))[0], drops
