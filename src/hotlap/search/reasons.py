"""Why a trial came to what it did, in words for people."""

from hotlap.experiment import Effect
from hotlap.experiment.statistics import FALSE_GAIN, Progress
from hotlap.experiment.total import too_late
from hotlap.record import LEAST_GAIN
from hotlap.units import factor


def left_out(effect: Effect, *, stays: bool, bundled: bool) -> str:
    """What became of a lever that was left out once. `bundled`: it was accepted with others."""
    brings = "nothing could be measured"
    if effect.seen is not None:
        brings = f"it brings {factor(effect.seen)} on top of the others"
    if bundled:
        then = "it stays with those it was accepted with" if stays else "it seems to cost, so it goes"
    else:
        then = "it stays" if stays else "it costs, so it goes"
    return f"Left out once: {brings}; {then}."


def why_not_judged(effect: Effect, total_steps: int | None) -> str:
    """Why training under it was not compared. `total_steps`: of the user's training, where they are known."""
    late = too_late(effect.break_even_step, total_steps) if effect.gained else None
    if late is not None:
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
