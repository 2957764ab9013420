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
    one number for all steps and runs, of which all updates are equal to the bit."""
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
    ratios = [ratio for pair in pairs for ratio in _ratios(pair)]
    if not ratios or any(not pair.base.updates or pair.base.updates != pair.lever.updates for pair in pairs):
        return 1.0
    times = ratios[0]
    steady = all(_same(ratio, times) for ratio in ratios)
    return times if steady and times > 0 and not _same(times, 1.0) else 1.0


def _same(x: float, y: float) -> bool:
    return math.isclose(x, y, rel_tol=FLOOR_ULPS * FLOAT32_ULP)


def _ratios(pair: Pair) -> list[float]:
    """Of the losses at each step; NaN, which is close to nothing, where one is not known."""
    losses = [(as_float(mine), as_float(other)) for _, mine, other in pair.of_both(lambda run: run.loss)]
    return [other / mine if mine and other is not None else math.nan for mine, other in losses]


def _divided(run: Run, times: float) -> Run:
    losses = [(loss, as_float(loss)) for loss in run.loss]
    return replace(run, loss=tuple(loss if value is None else value / times for loss, value in losses))
