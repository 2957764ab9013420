"""Two trainings of one seed -> how long each takes to the loss that the first one came to."""

import math
from dataclasses import dataclass
from statistics import fmean, stdev

from hotlap.record import Run, as_float

# Of the steps of the baseline: the mean over so many is the loss that is spoken of, and they are the end of the window.
_PART = 0.1
_FEWEST = 8

# Losses of the first steps that differ by more are not means over a batch, or not of the same thing.
_LIKE = 1.5

# Of a mean that is kept up to date by adding and taking away.
_ROUNDING = 1e-9

# Standard errors by which the loss must have fallen within the window, or there is no loss to compare by.
_CLEARLY = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToLoss:
    """One seed."""

    loss: float
    before_s: float
    """Seconds of training until the loss, in the baseline."""
    after_s: float


def times_to_loss(base: Run, larger: Run, *, growth: float) -> TimeToLoss | str:
    """Both recorded from their first step on; `growth`: samples in a step of `larger` over those of `base`.

    A sentence without its full stop where they cannot be compared, or where the larger batches lost.
    """
    losses, others = _losses(base), _losses(larger)
    window = max(_FEWEST, int(_PART * len(losses)))
    other_window = max(1, round(window / growth))
    why_not = _why_not(losses, others, window, other_window)
    if why_not is not None:
        return why_not
    target = fmean(losses[-window:])
    before_s, after_s = _time_to(base, losses, target, window), _time_to(larger, others, target, other_window)
    if after_s is None or before_s is None:
        return f"Larger batches did not reach a loss of {target:.4g} within twice the samples"
    return TimeToLoss(loss=target, before_s=before_s, after_s=after_s)


def _why_not(losses: list[float], others: list[float], window: int, other_window: int) -> str | None:
    """Why they cannot be compared."""
    if not losses:
        return "The baseline's losses are not all numbers, so there is none to compare by"
    if not others:
        return "With larger batches losses were not all finite numbers"
    if len(losses) < 3 * window or len(others) < 2 * other_window:
        return "Too few steps were made to compare the times to a loss"
    ratio = abs(others[0] / losses[0]) if losses[0] else math.inf
    if not 1 / _LIKE < ratio < _LIKE:
        return "The loss of a larger batch is not a mean over its samples, so losses cannot be compared"
    last = losses[-window:]
    if fmean(losses[:window]) - fmean(last) < _CLEARLY * stdev(last) / math.sqrt(window):
        return "The baseline's loss hardly falls within the steps that there was time for: there is none to compare by"
    return None


def _losses(run: Run) -> list[float]:
    """Of each step; empty unless all are finite numbers."""
    found = [as_float(loss) for loss in run.loss]
    known = [loss for loss in found if loss is not None and math.isfinite(loss)]
    return known if len(known) == len(run.step_s) else []


def _time_to(run: Run, losses: list[float], target: float, window: int) -> float | None:
    """Seconds from the end of the first step until the mean loss of the last `window` steps is as low as `target`.

    The first step holds the start of the process, which is the same for both.
    """
    total = sum(losses[:window])
    spent_s = sum(run.step_s[1:window])
    for index in range(window, len(losses) + 1):
        if total / window <= target + _ROUNDING * abs(target):
            return spent_s
        if index < len(losses):
            total += losses[index] - losses[index - window]
            spent_s += run.step_s[index]
    return None
