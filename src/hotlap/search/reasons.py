"""Why a trial came to what it did, in words for people."""

from collections.abc import Sequence

from hotlap.experiment import Effect
from hotlap.experiment.statistics import FALSE_GAIN, Progress
from hotlap.record import LEAST_GAIN
from hotlap.units import factor


def left_out(effect: Effect, then: str) -> str:
    """What a lever that was left out once brings, and what became of it."""
    brings = "nothing could be measured"
    if effect.seen is not None:
        brings = f"it brings {factor(effect.seen)} on top of the others"
    return f"Left out once: {brings}; {then}."


GAINED = "Faster; the gate judges it as one with what else gained."
"""What is known of a gain at first, and of a lever that was stacked."""


def excluded(names: Sequence[str], other: str) -> str:
    """It gained, and `other` was accepted."""
    what = f"another setting of {other}" if other in names else f"{other}, to which it is an alternative,"
    return f"Faster, but {what} was accepted; so training was not compared."


def why_not_judged(effect: Effect, late: str | None) -> str:
    """Why training under it was not compared. `late`: why a whole training gains nothing by it."""
    if effect.gained and late is not None:
        return f"Faster, but {late}; so training was not compared."
    if effect.failure is not None:
        return f"It could not be tried: {effect.failure.why}."
    number = len(effect.log_ratios)
    processes = "1 process" if number == 1 else f"{number} processes"
    if effect.progress is Progress.NO_GAIN:
        return f"No gain of {factor(LEAST_GAIN)} in {processes}, so training was not compared."
    if effect.progress is Progress.GO_ON:
        return f"The time was over after {processes}, before a gain could be shown."
    sure = f"{1 - FALSE_GAIN:.1%}"
    return (
        f"A gain above {factor(LEAST_GAIN)} could not be shown in {processes} with the certainty of {sure} that a "
        "claim needs; training was not compared."
    )
