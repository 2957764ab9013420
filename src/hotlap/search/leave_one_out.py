"""Does each accepted lever still earn its place? Those of which that is in doubt are left out once, side by side."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hotlap import levers
from hotlap.experiment import Arm, Design, Effect, Executor, Rule, Stack, compare
from hotlap.experiment.statistics import FEWEST_SHOWN, Progress
from hotlap.levers import Scope
from hotlap.record import LEAST_GAIN, LeverSpec, Trial
from hotlap.search.candidates import Candidates
from hotlap.search.reasons import left_out
from hotlap.search.study_log import StudyLog, key

# Heats until it is clear of each whether the step is faster without it; by chance it seems so as rarely as the truth
# lies below a 95% interval.
_RULE = Rule(line=1.0, planned=FEWEST_SHOWN, false_gain=0.025)
# Arms beside the base at most.
_MOST = 4


def leave_each_out(log: StudyLog, executor: Executor, candidates: Candidates, *, end_s: float) -> None:
    """The study goes on without those that cost. `end_s`: what the end of the study takes."""
    for group in _groups(log, candidates.stack, beside=min(_MOST, max(1, executor.sizes.together - 1))):
        switched = _is_switched(group[0], log)
        if not log.budget.affords(executor.estimate_s(len(group) + 1, switched=switched), keep_s=end_s):
            log.warn("The budget was over before each accepted lever could be left out once.")
            return
        _leave_out(group, log, executor, candidates.stack, end_s)


def _groups(log: StudyLog, stack: Stack, *, beside: int) -> Iterator[list[LeverSpec]]:
    """Those in doubt, as they can be left out in the same processes."""
    done = {key(trial.levers) for trial in log.study.trials if trial.kind == "leave-one-out"}
    doubtful = [spec for spec in stack if key((spec,)) not in done and _is_doubtful(spec, log.study.trials)]
    switched = [spec for spec in doubtful if _is_switched(spec, log)]
    for alike in ([spec for spec in doubtful if spec not in switched], switched):
        for start in range(0, len(alike), beside):
            yield alike[start : start + beside]


def _is_switched(spec: LeverSpec, log: StudyLog) -> bool:
    """Within a process; several that train together have it from their start."""
    return levers.from_spec(spec).scope is Scope.STEP and not log.several


def _is_doubtful(spec: LeverSpec, trials: Sequence[Trial]) -> bool:
    """It was not shown to gain alone; or others were accepted after it; or its stack brought less than the product of
    what its levers brought alone."""
    last = [trial for trial in trials if trial.kind == "lever" and trial.accepted][-1]
    if spec not in last.levers or not _was_shown(spec, trials):
        return True
    alone = [next(trial for trial in trials if trial.levers == (one,)) for one in last.levers]
    return math.prod(trial.seen or 1.0 for trial in alone) > LEAST_GAIN * (last.seen or 1.0)


def _was_shown(spec: LeverSpec, trials: Sequence[Trial]) -> bool:
    """A trial of its own showed a gain."""
    alone = [trial for trial in trials if trial.levers == (spec,)]
    return any(trial.kind == "screening" or (trial.kind == "lever" and trial.accepted) for trial in alone)


def _seemed_to_gain(spec: LeverSpec, trials: Sequence[Trial]) -> bool:
    return any((trial.seen or 0.0) >= LEAST_GAIN for trial in trials if trial.levers == (spec,))


def _leave_out(group: Sequence[LeverSpec], log: StudyLog, executor: Executor, stack: Stack, end_s: float) -> None:
    switched = _is_switched(group[0], log)
    scope = "step" if switched else "process"
    always = tuple(spec for spec in stack if switched and not _is_switched(spec, log))
    taken = tuple(spec for spec in stack if spec not in always)
    log.doing(f"leaving {', '.join(levers.from_spec(spec).title() for spec in group)} out once")
    without = [Effect(Arm(levers=tuple(one for one in taken if one != spec))) for spec in group]
    compare(
        without,
        executor,
        Design(arms=(Arm(levers=taken),), stack=always, switched=switched),
        pooled=log.pooled(scope),
        # What was never shown to gain needs all heats.
        rule=replace(_RULE, patient=not all(_was_shown(spec, log.study.trials) for spec in group)),
        time_left=lambda: log.budget.affords(0.0, keep_s=end_s),
    )
    for spec, effect in zip(group, without, strict=True):
        brings = replace(effect, log_ratios=[-ratio for ratio in effect.log_ratios])
        others = tuple(one for one in stack if one != spec)
        trial = log.trial(brings, levers=(spec,), on_top_of=others, kind="leave-one-out", scope=scope)
        # What gained alone goes only if it is shown to cost here. What was accepted with others because alone it could
        # not be shown must at least seem to gain; what did not even seem to must be shown to.
        if _was_shown(spec, log.study.trials):
            stays, goes = not effect.gained, "it costs, so it goes"
        elif _seemed_to_gain(spec, log.study.trials):
            stays, goes = effect.mean < 0.0, "it seems to cost, so it goes"
        else:
            stays = _RULE.progress(brings.log_ratios, log.pooled(scope)) is Progress.GAIN
            goes = "alone it brought nothing, and here that could not be told from nothing, so it goes"
        log.add(replace(trial, accepted=stays, why=left_out(brings, "it stays" if stays else goes)))
