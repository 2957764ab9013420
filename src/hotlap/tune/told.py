"""What trials came to, in words for people."""

from collections.abc import Sequence

from hotlap.record import LEAST_GAIN
from hotlap.statistics import FALSE_GAIN, Progress
from hotlap.tune.candidates import Candidate, Promise
from hotlap.tune.comparison import Contender
from hotlap.units import factor


def title(candidate: Candidate) -> str:
    """For people: "threads count=1", "compile + channels-last"."""
    return " + ".join(lever.title() for lever in candidate)


def titles(promises: Sequence[Promise]) -> str:
    """Of several, in a row."""
    return ", ".join(title(one.candidate) for one in promises)


def stays_or_goes(stays: bool, bundled: bool) -> str:
    """What becomes of a lever that was left out once."""
    if bundled:
        return "it stays with those it was accepted with" if stays else "it seems to cost, so it goes"
    return "it stays" if stays else "that cannot be told from none, so it goes"


def no_gain(contender: Contender) -> str:
    """Why training under it was not compared."""
    if contender.failure is not None:
        return f"It could not be tried: {contender.failure.why}."
    number = len(contender.log_ratios)
    processes = "1 process" if number == 1 else f"{number} processes"
    if contender.progress is Progress.NO_GAIN:
        return f"No gain of {factor(LEAST_GAIN)} in {processes}, so training was not compared."
    if contender.progress is Progress.GO_ON:
        return f"The time was over after {processes}, before a gain could be shown."
    sure = f"{1 - FALSE_GAIN:.1%}"
    return (
        f"A gain above {factor(LEAST_GAIN)} could not be shown in {processes} with the certainty of {sure} that a "
        "claim needs; training was not compared."
    )
