"""Several contenders against one base, process after process, until each is decided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hotlap import statistics
from hotlap.record import LEAST_GAIN, Failure, Interval, Run
from hotlap.statistics import Progress
from hotlap.tune.failure import Failed
from hotlap.tune.one_time import one_time_s, start_s
from hotlap.tune.timing import Heat

# Processes (or groups that take turns) at most for one trial. Fewer when it is clear before.
PLANNED = 5


@dataclass(slots=True)
class Contender:
    """One thing that is compared with the base."""

    name: str
    log_ratios: list[float] = field(default_factory=list)
    progress: Progress = Progress.GO_ON
    failure: Failed | None = None
    starts_s: list[float] = field(default_factory=list)
    """Of its processes, where it ran in some of its own."""
    bases_s: list[float] = field(default_factory=list)
    """Of the base's, in the same heats."""
    run: Run | None = None
    """The last process that it ran in."""
    base: Run | None = None
    """The base of that heat; the same process when they were switched in it."""

    @property
    def open(self) -> bool:
        """More processes are wanted."""
        return self.failure is None and self.progress is Progress.GO_ON

    @property
    def one_time_s(self) -> float | None:
        """What it costs once; None where that was not seen, or may be chance."""
        return one_time_s(self.bases_s, self.starts_s)

    @property
    def mean(self) -> float:
        """Log-ratio to the base, so far."""
        return sum(self.log_ratios) / len(self.log_ratios) if self.log_ratios else 0.0

    def speedup(self, pooled: tuple[float, int] | None) -> Interval | None:
        """Over the base."""
        return statistics.interval(self.log_ratios, pooled_variance=pooled) if self.log_ratios else None


def compare(
    contenders: Sequence[Contender],
    heat: Callable[[Sequence[Contender]], Heat],
    *,
    pooled: tuple[float, int] | None,
    line: float = LEAST_GAIN,
    planned: int = PLANNED,
    patient: bool = False,
    false_gain: float = statistics.FALSE_GAIN,
    time_left: Callable[[], bool] = lambda: True,
) -> None:
    """Run heats of those that are still open until none is, one that gains is ahead of them all, or the time is over.

    What is still open behind a gain would have to be compared again on top of it. `patient` and `false_gain`: as for
    `can_stop`.
    """

    def progress(log_ratios: Sequence[float]) -> Progress:
        return statistics.can_stop(
            log_ratios, pooled_variance=pooled, planned=planned, line=line, patient=patient, false_gain=false_gain
        )

    number = 0
    while number < planned and time_left():
        still = [contender for contender in contenders if contender.open]
        gains = [contender.mean for contender in contenders if contender.progress is Progress.GAIN]
        if not still or (gains and all(contender.mean < max(gains) for contender in still)):
            return
        number += 1
        _note(still, heat(still), progress)


def _note(still: Sequence[Contender], outcome: Heat, progress: Callable[[Sequence[float]], Progress]) -> None:
    for k, contender in enumerate(still):
        ratio, failure = outcome.log_ratios[k], outcome.failures[k]
        if failure is not None or ratio is None:
            contender.failure = failure or Failed(Failure.TOO_FEW_STEPS, "too few steps for a comparison")
            continue
        contender.log_ratios.append(ratio)
        contender.base = outcome.runs[0]
        contender.run = outcome.runs[0]
        if len(outcome.runs) > 1:
            contender.run = outcome.runs[k + 1]
            starts_s = start_s(contender.base), start_s(contender.run)
            if starts_s[0] is not None and starts_s[1] is not None:
                contender.bases_s.append(starts_s[0])
                contender.starts_s.append(starts_s[1])
        contender.progress = progress(contender.log_ratios)
