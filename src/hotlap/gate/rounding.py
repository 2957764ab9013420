"""ROUNDING: the same samples, and losses no further from those of the baseline than rounding alone takes them.

Rounding differences start at the size of an ulp and grow, in most networks by a constant factor a step, until the two
runs are as far apart as two trainings can be. A wrong update starts many orders of magnitude above an ulp. So the early
steps tell most, and the bound follows what perturbed runs of the very same script do, step by step.

Where gaps stay small, no harmless change in 36 was refused (tests/property/test_gate.py names the kinds). Where they
grow to the size of the loss, and with only two perturbed runs 7 in 150 were (5%); all of 228 injected faults were seen.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.gate import prints
from hotlap.gate.evidence import Evidence, Pair, Ruling, extent, harmed, loss_matrix, undecided, unharmed

Row = NDArray[np.float64]

# A nudge rounds each parameter once a step; another kernel rounds each of the ten or so operations of an update, and
# sums in another order. While gaps are small they are proportional to their cause, so ten times the nudge's gap.
SMALL_MARGIN = 10.0
# Once gaps are no longer small they stop to grow and are about equal, whatever caused them: three times covers the
# difference between the largest of some hundred steps in one run and in the two or three perturbed ones.
LARGE_MARGIN = 3.0
# "Small": a thousandth of the loss. Batches make a loss jump by far more than that from step to step.
SMALL = 1e-3
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


def judge(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling:
    """Compare each run with the lever to what perturbed runs (and repeats that differ by themselves) show."""
    references = (*evidence.perturbed, *evidence.base[1:])
    steps, losses = loss_matrix([evidence.base[0], *references, *(pair.lever for pair in pairs)])
    base, lever = losses[0], losses[1 + len(references) :]
    known = losses[1 : 1 + len(references)] - base
    known = known[known.any(axis=1)]  # a repeat that is bit-equal shows nothing of rounding
    equal = bool((lever == base).all())
    ruling = prints.beyond_rounding(evidence, pairs, equal=equal)
    if ruling:
        return ruling
    if equal:
        return unharmed(f"Losses are even bit-equal over {_compared(len(steps), pairs)}.")
    limit = _limit(base, known)
    beyond = abs(lever - base) > limit
    if not evidence.perturbed and not len(known) and beyond.any():
        return undecided(
            "Losses differ, and it was not measured how far rounding alone takes them (no perturbed runs)."
        )
    at_once = _limit_at_once(evidence, base, known)
    for k in range(len(lever)):
        if steps[0] == 0 and abs(lever[k, 0] - base[0]) > at_once:
            return harmed(
                f"The first loss is {abs(lever[k, 0] - base[0]):.2g} from that of the baseline, before any update; "
                f"rounding alone explains {at_once:.2g}.",
                by_chance=True,
            )
        if beyond[k].mean() > MAX_BEYOND:
            at = int(beyond[k].argmax())
            gap, allowed = abs(lever[k, at] - base[at]), limit[at]
            return harmed(
                f"The loss at step {steps[at]} is {gap:.2g} from that of the baseline; rounding alone explains "
                f"{allowed:.2g}. This happens at {beyond[k].mean():.0%} of {len(steps)} steps.",
                by_chance=True,
            )
    return unharmed(
        f"The same samples, and losses within what rounding does to the baseline ({len(known)} runs; "
        f"{SMALL_MARGIN:.0f} times that while below {SMALL:.1%} of the loss, then {LARGE_MARGIN:.0f} times), over "
        f"{_compared(len(steps), pairs)}."
    )


def _limit(base: Row, known: Row) -> Row:
    """Step -> the gap that rounding explains. `known`: (run, step) gaps of runs that differ by rounding alone."""
    num_steps = len(base)
    scale = _local_scale(base)
    small = SMALL * scale
    if len(known):
        so_far = np.maximum.accumulate(np.abs(known).max(axis=0))
        ahead = [min(num_steps - 1, t + max(AHEAD_STEPS, int(AHEAD_SHARE * t))) for t in range(num_steps)]
        envelope = so_far[ahead]
    else:
        envelope = np.zeros(num_steps)
    bound = np.minimum(SMALL_MARGIN * envelope, np.maximum(LARGE_MARGIN * envelope, small))
    return np.asarray(np.maximum(bound, FLOOR_ULPS * _ulp(base) * scale))


def _limit_at_once(evidence: Evidence, base: Row, known: Row) -> float:
    """What rounding explains of the first loss, before it has grown. Without end where it is not known: of float32 that
    is computed from shorter numbers a perturbation of float32 says little."""
    short = any(run.autocast for run in evidence.base) or _ulp(base) != FLOAT32_ULP
    if short or not len(known):
        return math.inf
    perturbed = float(np.abs(known[:, : AT_ONCE + 1]).max())
    return max(SMALL_MARGIN * perturbed, FLOOR_ULPS * FLOAT32_ULP * float(_local_scale(base)[0]))


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
    bits = single.view(np.uint32)
    if (single != base).any():
        return FLOAT32_ULP
    if not (bits & 0xFFFF).any():
        return BFLOAT16_ULP
    return FLOAT16_ULP if not (bits & 0x1FFF).any() else FLOAT32_ULP


def _compared(num_steps: int, pairs: Sequence[Pair]) -> str:
    """How much was compared. Perturbed runs may be shorter than the pairs, whose samples were compared to their end."""
    runs = [pair.lever for pair in pairs]
    whole = min(len(pair.steps()) for pair in pairs)
    if num_steps == whole:
        return extent(num_steps, runs)
    return f"{num_steps} steps (samples over {extent(whole, runs)})"
