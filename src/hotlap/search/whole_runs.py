"""Whole trainings by the clock: where one takes seconds, nothing tells truer what the user gains."""

from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from hotlap.experiment import Arm, Design, Effect, Executor, Stack
from hotlap.experiment.total import total_s
from hotlap.record import Run, Status
from hotlap.search.study_log import StudyLog, facts

# Pairs: fewer say too little of so noisy a thing, and more hardly more.
FEWEST, MOST = 4, 8

# Part of the budget that the end of a study keeps free for them. Where they take longer, they are made of what is left.
_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class WholeRuns:
    """What came of them."""

    pairs: tuple[tuple[float, float], ...] = ()
    """Seconds of the baseline and of its patched copy, one after the other. None: there was no time for enough."""
    failure: str | None = None
    """Why the patched copy, and it alone, does not come to its end."""


def expected_s(log: StudyLog, runs: tuple[Run, Run]) -> float | None:
    """Seconds of a pair, from some steps of each; None where the study does not know how long the training is, or the
    user named a length that is not the script's own."""
    num_steps = log.study.total_steps
    if num_steps is None or log.options.total_steps is not None:
        return None
    epoch_steps = facts(log.study).epoch_steps()
    return sum(total_s(run, num_steps=num_steps, epoch_steps=epoch_steps) for run in runs)


def kept_s(log: StudyLog) -> float:
    """What the end of the study keeps free for them."""
    base = log.study.baseline[0]
    pair_s = expected_s(log, (base, base))
    return FEWEST * pair_s if pair_s is not None and FEWEST * pair_s <= _SHARE * log.budget.total_s else 0.0


def whole_runs(log: StudyLog, executor: Executor, stack: Stack, effect: Effect) -> WholeRuns:
    """Whole trainings of the baseline and of its patched copy in turns, if there is time for enough of them. `effect`:
    how the two compared."""
    pair_s = fmean(found) if (found := [s for pair in effect.pairs if (s := expected_s(log, pair))]) else None
    if pair_s is None or FEWEST * pair_s > log.budget.left_s:
        return WholeRuns()
    log.doing("running the whole training as it is and patched, in turns, from start to end")
    made: list[tuple[float, float]] = []
    most = min(MOST, int(log.budget.left_s / pair_s))
    design = Design(arms=(Arm(), Arm(levers=stack)), afresh=True)
    for base, patched in islice(executor.whole(design, limit_s=log.budget.limit_s(pair_s)), most):
        if base.status is not Status.ENDED or base.whole_s is None:
            return WholeRuns()
        if patched.status in (Status.CRASHED, Status.KILLED):
            return WholeRuns(failure=patched.error or "no reason recorded")
        if patched.status is not Status.ENDED or patched.whole_s is None:
            return WholeRuns()
        made.append((base.whole_s, patched.whole_s))
    return WholeRuns(tuple(made))
