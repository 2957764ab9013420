"""Does each accepted lever still earn its place? Each is left out once."""

from dataclasses import replace

from hotlap import levers
from hotlap.experiment import Design, Effect, Executor, Rule, compare
from hotlap.experiment.statistics import FEWEST_SHOWN
from hotlap.record import LeverSpec, Trial
from hotlap.search.candidates import Candidate, Candidates, key
from hotlap.search.reasons import left_out
from hotlap.search.study_log import StudyLog

# Heats that say something of a lever that was left out.
_FEWEST_HEATS = 2
_RULE = Rule(line=1.0, planned=FEWEST_SHOWN, patient=True)


def leave_each_out(log: StudyLog, executor: Executor, candidates: Candidates, *, end_s: float) -> None:
    """The study goes on without those that cost. `end_s`: what the end of the study takes.

    One that was accepted last, alone, was compared on top of all others already.
    """
    done = {key(trial.levers) for trial in log.study.trials if trial.kind == "leave-one-out"}
    accepted = [trial.levers for trial in log.study.trials if trial.kind == "lever" and trial.accepted]
    for spec in candidates.stack:
        if key((spec,)) in done or (spec,) == accepted[-1]:
            continue
        if not log.budget.affords(_FEWEST_HEATS * executor.estimate_s(), keep_s=end_s):
            log.warn("The budget was over before each accepted lever could be left out once.")
            return
        log.add(_leave_out(spec, log, executor, candidates, end_s))


def _leave_out(spec: LeverSpec, log: StudyLog, executor: Executor, candidates: Candidates, end_s: float) -> Trial:
    one = Candidate(levers=(levers.from_spec(spec),), bound_s=0.0)
    others = tuple(other for other in candidates.stack if other != spec)
    log.doing(f"leaving {one.title} out once")
    effect = Effect(one.arm)
    compare(
        [effect],
        executor,
        Design(stack=others, switched=one.switched),
        pooled=log.pooled(one.scope),
        rule=_RULE,
        time_left=lambda: log.budget.affords(0.0, keep_s=end_s),
    )
    trial = log.trial(effect, levers=(spec,), on_top_of=others, kind="leave-one-out", scope=one.scope)
    # What gained alone goes only if it is shown to cost here. What was accepted with others because alone it could not
    # be shown must at least seem to gain.
    bundled = candidates.is_bundled(spec)
    costs = (effect.seen or 0.0) <= 1.0 if bundled else trial.speedup is not None and trial.speedup.high < 1.0
    stays = effect.failure is None and not costs
    return replace(trial, accepted=stays, why=left_out(effect, stays=stays, bundled=bundled))
