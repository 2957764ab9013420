"""Losses of another scale beside updates that are bit-equal: what backward starts from is divided later, or not at all.

The loss of a step is the sum of what its backward passes start from. A script that divides gradients by the number of
parts, where it divided the loss, starts from a larger number and trains the same.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from hotlap.gate.evidence import Evidence, Pair
from hotlap.gate.rounding import FLOAT32_ULP, FLOOR_ULPS
from hotlap.record import Run, as_float


def in_one_scale(evidence: Evidence) -> tuple[Evidence, float]:
    """With losses in the scale of the baseline, and how many times as large those with the lever were: 1 unless it is
    one number for all steps and runs, of which all batches and updates are equal to the bit."""
    by_seed = {run.seed: run for run in reversed((*evidence.base[:1], *evidence.base_seeds))}
    pairs = [Pair(by_seed[run.seed], run) for run in evidence.with_lever() if run.seed in by_seed]
    times = _times(pairs) if len(pairs) == len(evidence.with_lever()) else 1.0
    if times == 1:
        return evidence, times
    lever, lever_seeds = (
        tuple(_divided(run, times) for run in runs) for runs in (evidence.lever, evidence.lever_seeds)
    )
    return replace(evidence, lever=lever, lever_seeds=lever_seeds), times


def _times(pairs: Sequence[Pair]) -> float:
    losses = [found for pair in pairs for found in pair.of_both(lambda run: run.loss)]
    known = [(as_float(mine), as_float(other)) for _, mine, other in losses]
    # NaN, which is close to nothing, where one is not known.
    ratios = [other / mine if mine and other is not None else math.nan for mine, other in known]
    # Of other batches a loss may be another one, whatever became of it.
    same = all(
        base.updates and base.updates == lever.updates and base.batch_digest == lever.batch_digest
        for base, lever in ((pair.base, pair.lever) for pair in pairs)
    )
    if not ratios or not same:
        return 1.0
    first, rounding = ratios[0], FLOOR_ULPS * FLOAT32_ULP
    steady = all(math.isclose(ratio, first, rel_tol=rounding) for ratio in ratios)
    return first if steady and first > 0 and not math.isclose(first, 1, rel_tol=rounding) else 1.0


def _divided(run: Run, times: float) -> Run:
    losses = [(loss, as_float(loss)) for loss in run.loss]
    return replace(run, loss=tuple(loss if value is None else value / times for loss, value in losses))
