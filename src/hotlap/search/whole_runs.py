"""Whole trainings by the clock: where one takes seconds, nothing tells truer what the user gains."""

from dataclasses import dataclass
from itertools import islice

from hotlap.experiment import Arm, Design, Effect, Executor, Stack
from hotlap.experiment.total import total_s
from hotlap.record import Run, Status
from hotlap.search.study_log import StudyLog, facts

# Pairs: fewer say too little of so noisy a thing. Twice as many where the gain is expected to be below `_MUCH`.
FEWEST = 4
_MUCH = 1.5

# Part of the budget that the end of a study keeps free for them. Where they take longer, they are made of what is left.
# (With a quarter a training of 19 s was told by some steps of it, as 1.15x; by the clock it took as long as before: a
# compiled model is compiled once more for the first validation, which came behind those steps.)
_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class WholeRuns:
    """What came of them."""

    pairs: tuple[tuple[float, float], ...] = ()
    """Seconds of the baseline and of its patched copy, one after the other. Empty: there was no time for enough."""
    failure: str | None = None
    """Why the patched copy, and it alone, does not come to its end."""


def _expected_s(log: StudyLog, run: Run) -> float | None:
    """Seconds of a whole training, from some steps of it; None where its length is not known, or the user named
    another than the script's own."""
    num_steps = log.study.total_steps
    if num_steps is None or log.options.total_steps is not None:
        return None
    epoch_steps = facts(log.study).epoch_steps()
    return total_s(run, num_steps=num_steps, epoch_steps=epoch_steps)


def kept_s(log: StudyLog) -> float:
    """What the end of the study keeps free for them."""
    base_s = _expected_s(log, log.study.baseline[0])
    all_s = 2 * FEWEST * base_s if base_s is not None else 0.0
    return all_s if all_s <= _SHARE * log.budget.total_s else 0.0


def whole_runs(log: StudyLog, executor: Executor, stack: Stack, effect: Effect) -> WholeRuns:
    """Whole trainings of the baseline and of its patched copy in turns, if there is time for enough of them. `effect`:
    how the two compared."""
    pair = effect.typical_pair
    base_s, patched_s = (_expected_s(log, run) for run in pair) if pair is not None else (None, None)
    if base_s is None or patched_s is None:
        return WholeRuns()
    fewest_s, budget = FEWEST * (base_s + patched_s), log.budget
    if budget.left_s < fewest_s <= budget.left_s + budget.extension_s:
        log.extend()
    if fewest_s > budget.left_s:
        return WholeRuns()
    wanted = FEWEST if base_s > _MUCH * patched_s else 2 * FEWEST
    affordable = int(log.budget.left_s / (base_s + patched_s))
    log.doing("running the whole training as it is and patched, in turns, from start to end")
    made: list[tuple[float, float]] = []
    design = Design(arms=(Arm(), Arm(levers=stack)), afresh=True)
    trainings = executor.whole(design, limit_s=log.budget.limit_s(base_s))
    for base, patched in islice(trainings, min(wanted, affordable)):
        if base.whole_s is not None and patched.status in (Status.CRASHED, Status.KILLED):
            return WholeRuns(failure=patched.error or "no reason recorded")
        if base.whole_s is None or patched.whole_s is None:
            return WholeRuns()
        made.append((base.whole_s, patched.whole_s))
    return WholeRuns(tuple(made))
