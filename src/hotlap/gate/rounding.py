"""ROUNDING: the same samples, and losses no further from those of the baseline than rounding alone takes them; and what
it changes of gradients and updates, from runs of the baseline.

Rounding differences start at the size of an ulp and grow, in most networks by a constant factor a step, until the two
runs are as far apart as two trainings can be. A wrong update starts many orders of magnitude above an ulp. So the early
steps tell most, and the bound follows what perturbed runs of the very same script do, step by step.

Where gaps stay small, no harmless change in 36 was refused (tests/property/test_gate.py names the kinds). Where they
grow to the size of the loss, and with only two perturbed runs 7 in 150 were (5%); all of 228 injected faults were seen.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from hotlap.gate import prints
from hotlap.gate.evidence import STILL_SAME, Evidence, Pair, Ruling, extent, harmed, loss_matrix, undecided, unharmed
from hotlap.gate.standing_out import Measure, Of, common_updates, numbers_of
from hotlap.gate.step_fields import BATCH, RANDOM_STATE, SOURCES
from hotlap.record import BEYOND_EPOCH, KEPT_STEPS, Run
from hotlap.student import mean_interval

Row = NDArray[np.float64]

# A perturbation rounds each parameter once a step; another kernel rounds each of the ten or so operations of an update,
# and sums in another order. While gaps are small they are proportional to their cause, so ten times the perturbation's.
SMALL_MARGIN = 10.0
# Once gaps are no longer small they stop to grow and are about equal, whatever caused them: three times covers the
# difference between the largest of some hundred steps in one run and in the two or three perturbed ones.
LARGE_MARGIN = 3.0
# "Small": a thousandth of the loss. Batches make a loss jump by far more than that from step to step.
SMALL = 1e-3
# Within so many steps rounding makes a gap of losses hardly ever so many times as large; small units that flip do at
# times (a small detector: 21 times in one step).
JUMP_STEPS, USUAL_JUMP = 3, 33.0
# Growth differs between runs: one meets a flipped ReLU some steps earlier. The bound looks this much ahead.
AHEAD_SHARE, AHEAD_STEPS = 0.5, 20
# Where perturbed losses are bit-equal to those of the baseline, this many ulps of it are rounding still: a loss is a
# mean of hundreds of terms, each behind sums of hundreds of products, and errors of n sums grow like sqrt(n).
FLOOR_ULPS = 64
FLOAT32_ULP, FLOAT16_ULP, BFLOAT16_ULP = 2.0**-23, 2.0**-10, 2.0**-7
# A perturbation of one unit in the last place takes many more updates than these to grow, or to change a gradient by a
# twentieth, also in a training that is chaotic.
AT_ONCE = 2
# A wrong update does not heal, so a harmful gap stays; a run of luck beyond the bound is shorter than this share.
MAX_BEYOND = 0.05
# What is wrong from an epoch's begin on is so in half of the last steps, which are recorded for its sake.
MOSTLY = 0.5
# bfloat16 rounds each factor by up to 0.4%; a twentieth in the size of a gradient is no rounding.
GRADIENT_FLOOR = 0.05
# One element in a hundred: float16 under a scaler that works loses fewer of a gradient.
FILLED_FLOOR = 0.01

Rooms = Mapping[tuple[int, int], float]
"""(step, parameter) -> by how much an update may grow (a logarithm)."""


def judge(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling:
    """Compare each run with the lever to what perturbed runs (and repeats that differ by themselves) show."""
    references = (*evidence.perturbed, *evidence.base[1:])
    steps, losses = loss_matrix([evidence.base[0], *(pair.lever for pair in pairs)])
    base, lever = losses[0], losses[1:]
    # Where a reference ends earlier, its gap is not known (NaN).
    known = np.array([_gaps(run, steps, base) for run in references]).reshape(-1, len(steps))
    known = known[np.nan_to_num(known).any(axis=1)]  # a repeat that is bit-equal shows nothing of rounding
    equal = bool((lever == base).all())
    ruling = prints.beyond_rounding(evidence, pairs, equal=equal)
    if ruling:
        return ruling
    if equal:
        return unharmed(f"Losses are even bit-equal over {_compared(len(steps), pairs)}.")
    # Behind the last step of all of them it is not known how far rounding takes the losses.
    reached = ~np.isnan(known).all(axis=0) if len(known) else np.ones(len(steps), dtype=bool)
    steps = [step for step, is_known in zip(steps, reached, strict=True) if is_known]
    base, lever, known = base[reached], lever[:, reached], known[:, reached]
    limit = _limit(base, known)
    if not evidence.perturbed and not len(known) and (abs(lever - base) > limit).any():
        return undecided(
            "Losses differ, and it was not measured how far rounding alone takes them (no perturbed runs)."
        )
    of_each = (_beyond(steps, abs(losses_of_pair - base), limit) for losses_of_pair in lever)
    return (
        jump(evidence, pairs)
        or next(filter(None, of_each), None)
        or unharmed(
            f"The same samples, and losses within what rounding does to the baseline ({len(known)} runs; "
            f"{SMALL_MARGIN:.0f} times that while below {SMALL:.1%} of the loss, then {LARGE_MARGIN:.0f} times), over "
            f"{_compared(len(steps), pairs)}."
        )
    )


def jump(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where losses that were the same, but for rounding, are others in a few steps, with the same batches and
    random numbers: what is kept from step to step (a hidden state, the weights of a sum of losses) was changed there,
    or a formula has come to a case of which the other one makes something else. What rounding does grows, in most
    networks by some tens of percent a step; how fast in these few steps at most, perturbed runs show."""
    usual = max([USUAL_JUMP, *(_growth(Pair(evidence.base[0], run))[0] for run in evidence.perturbed)])
    beyond = [found for found in map(_growth, pairs) if found[0] > LARGE_MARGIN * usual]
    if len(beyond) < min(2, len(pairs)):
        return None
    _, step, before, gap = beyond[0]
    return harmed(
        f"The loss at step {step} is {gap:.2g} of it away from that of the baseline, with the same batches and random "
        f"numbers, and before {before:.1g} of it at most.",
        by_chance=len(pairs) == 1,
    )


def _growth(pair: Pair) -> tuple[float, int, float, float]:
    """(by how many times gaps of losses grew within `JUMP_STEPS`, in which step, gap before it, largest gap in it)."""
    steps, (base, lever) = loss_matrix([pair.base, pair.lever])
    gaps = np.abs(lever - base) / np.maximum.accumulate(np.abs(base))
    # Without a loader batches are what models were given, a state that is carried among it.
    drawn = (RANDOM_STATE, SOURCES, *((BATCH,) if any(pair.base.num_samples) else ()))
    firsts = (field.first(pair.base, pair.lever) for field in drawn)
    others = bisect_left(steps, min((first[0] for first in firsts if first is not None), default=math.inf))
    floor = FLOAT32_ULP if pair.is_as_long() else STILL_SAME
    before = np.maximum.accumulate(gaps)
    same = int(np.searchsorted(before, STILL_SAME, side="right"))
    # Where elements are dropped from that step on, they may be others.
    at = range(1 + (KEPT_STEPS if pair.base.dropouts else 0), min(others, same + 1, len(gaps)))
    growths = [(gaps[t : min(others, t + JUMP_STEPS)].max() / max(before[t - 1], floor), t) for t in at]
    growth, t = max(growths, default=(0.0, 0))
    return float(growth), steps[t], float(before[t - 1]), float(gaps[t : t + JUMP_STEPS].max())


def _beyond(steps: Sequence[int], gaps: Row, limit: Row) -> Ruling | None:
    """HARMED where the losses of a pair are further from each other than rounding takes them."""
    beyond = gaps > limit
    if beyond.mean() <= MAX_BEYOND and beyond[-BEYOND_EPOCH:].mean() < MOSTLY:
        return None
    at = int(beyond.argmax())
    return harmed(
        f"The loss at step {steps[at]} is {gaps[at]:.2g} from that of the baseline; rounding alone explains "
        f"{limit[at]:.2g}. This happens at {beyond.mean():.0%} of {len(steps)} steps.",
        by_chance=True,
    )


def _limit(base: Row, known: Row) -> Row:
    """Step -> the gap that rounding explains. `known`: (run, step) gaps of runs that differ by rounding alone."""
    num_steps = len(base)
    scale = _local_scale(base)
    small = SMALL * scale
    so_far = np.maximum.accumulate(np.abs(np.nan_to_num(known)).max(axis=0, initial=0.0))
    ahead = [min(num_steps - 1, t + max(AHEAD_STEPS, int(AHEAD_SHARE * t))) for t in range(num_steps)]
    envelope = so_far[ahead]
    bound = np.minimum(SMALL_MARGIN * envelope, np.maximum(LARGE_MARGIN * envelope, small))
    return np.asarray(np.maximum(bound, FLOOR_ULPS * _ulp(base) * scale))


def explained_at_once(evidence: Evidence) -> float:
    """Part of the first loss that rounding explains, before it has grown. Without end where it is not known: of float32
    that is computed from shorter numbers a perturbation of float32 says little."""
    _, (base, *others) = loss_matrix([evidence.base[0], *evidence.perturbed, *evidence.base[1:]])
    perturbed = max((float(abs(losses - base)[: AT_ONCE + 1].max()) for losses in others), default=0.0)
    different = any((losses != base).any() for losses in others)
    if not different or any(run.autocast for run in evidence.base) or _ulp(base) != FLOAT32_ULP:
        return math.inf
    return max(SMALL_MARGIN * perturbed / float(_local_scale(base)[0]), FLOOR_ULPS * FLOAT32_ULP)


def _gaps(run: Run, steps: Sequence[int], base: Row) -> Row:
    """(step,) its losses less those of the baseline; NaN where it has none."""
    own, (losses,) = loss_matrix([run])
    found = dict(zip(own, losses, strict=True))
    return np.array([found.get(step, math.nan) for step in steps]) - base


def _local_scale(base: Row) -> Row:
    """Size of the loss around each step: a loss that happens to be near 0 carries the rounding of its neighbours."""
    size = np.abs(base)
    return np.array([size[max(0, t - 10) : t + 11].max() for t in range(len(size))])


def _ulp(base: Row) -> float:
    """Relative spacing of the type that the losses were computed in: bfloat16 or float16 if all fit, else float32.

    float64 losses are held to float32 as well: a gap of 1e-5 of the loss harms nobody.
    """
    # Positions 8 to 23 of a float32's mantissa are empty in a bfloat16, 11 to 23 in a float16.
    single = base.astype(np.float32)
    empty = np.bitwise_or.reduce(single.view(np.uint32)) if (single == base).all() else 1
    return FLOAT32_ULP if empty & 0x1FFF else BFLOAT16_ULP if not empty & 0xFFFF else FLOAT16_ULP


def _compared(num_steps: int, pairs: Sequence[Pair]) -> str:
    """How much was compared. Perturbed runs may be shorter than the pairs, whose samples were compared to their end."""
    runs = [pair.lever for pair in pairs]
    whole = min(len(pair.steps()) for pair in pairs)
    if num_steps == whole:
        return extent(num_steps, runs)
    return f"{num_steps} steps (samples over {extent(whole, runs)})"


def unsteady(evidence: Evidence, measure: Measure, floor: float = GRADIENT_FLOOR) -> frozenset[int]:
    """What a perturbation changes at once by more than `floor`: it is 0 but for rounding, so it means nothing.

    The gradient of the bias of a convolution in front of a batch normalisation is such: whatever it is, the mean takes
    it out again.
    """
    return frozenset(
        k
        for run in evidence.perturbed
        for mine, other in common_updates(Pair(evidence.base[0], run))
        if mine.step <= AT_ONCE
        for k, change in enumerate(measure(mine, other))
        if abs(change) > floor
    )


def without_room(ratio: float, room: float) -> float:
    """What is left of a growth (both logarithms); a shrinking is as it is."""
    return max(0.0, ratio - room) if ratio > 0 else ratio


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
        of_runs = [fmean(found.values()) for found in by_run]
        _, _, share = mean_interval(of_runs) or (of_runs[0],) * 3
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
        for step, p, value in numbers_of(run, of):
            if math.isfinite(value):
                found.setdefault(p, {}).setdefault(k, {})[step] = value
    return {p: list(by_run.values()) for p, by_run in found.items()}
