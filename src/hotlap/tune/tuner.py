"""One study: baseline, noise, ceilings, what is tried, what is left out once, and the patched copy as the last.

Each stage looks at what the study holds already and does the rest, so a study that was interrupted goes on where it
stopped.
"""

from dataclasses import replace

from hotlap.experiment import Executor, Sizes
from hotlap.experiment.statistics import FEWEST_SHOWN
from hotlap.levers import BatchSize
from hotlap.record import Run, State, Status, Study
from hotlap.search import GateRuns, Search, StudyLog, facts, unchanged
from hotlap.search.candidates import CLEAR
from hotlap.search.costs import MOST_LATE
from hotlap.tune.diagnosis import ceilings, findings_of
from hotlap.tune.first_look import enough_s, first_look
from hotlap.tune.measuring import PROFILERS, trainers
from hotlap.tune.noise import EQUAL, calibrate
from hotlap.tune.recipe import Recipes

# No lever can be shown to help in less: two trial groups of one trial, three of the confirmation, each of two
# processes, and runs for the gate: of the baseline, under the lever, patched.
_FEWEST_TRIAL_GROUPS = CLEAR + FEWEST_SHOWN
_FEWEST_EVIDENCE = 3
# A trial group of four that takes longer leaves a budget of some minutes too few of them (`Options.long_budget_s`).
_LONG_TRIAL_GROUP_S = 15.0
# Part of the first start that later ones take at best: the first imports torch, and forks need not. (9.0 s, then 0.9 s
# on an H100.)
_LATER_STARTS = 1 / 10

# Part of the budget that is kept for larger batches, where they are allowed.
_FOR_RECIPES = 0.4


def tuned(log: StudyLog) -> Study:
    """Complete the study.

    Raises:
        ScriptFailed: the baseline fails. NoSteps: it makes no, or too few, training steps.
    """
    executor = log.executor(_look(log))
    recipes = _wants_recipes(log)
    keeps = recipes and BatchSize().rejects(facts(log.study), log.machine) is None
    log.budget.later_s = _FOR_RECIPES * log.options.budget_s if keeps else 0.0
    several = _why_not_several(log.study.baseline[0])
    search = _try_levers(log, executor) if several is None else None
    if several is not None:
        log.warn(several)
        log.change("result", result=log.study.result or unchanged(several))
    log.budget.later_s = 0.0
    if recipes:
        Recipes(log, executor.sizes).study()
    if search is not None:
        search.end()
    log.change("end", state=State.COMPLETE)
    return log.study


def _wants_recipes(log: StudyLog) -> bool:
    if BatchSize.name not in log.options.allow or log.study.recipe is not None:
        return False
    if log.several:
        log.warn("Other batch sizes are not tried where several processes train together.")
        return False
    return True


def _try_levers(log: StudyLog, executor: Executor) -> Search:
    """Levers that leave training as it is: a search that has come to its result. What only a proof needs is left out
    where there is no time for one: the search then times what it can."""
    gate = GateRuns(log, executor)
    trial_group_s = _at_best(executor.sizes).trial_group_s(2)
    if log.study.noise or log.budget.affords(trial_group_s + _proof_s(_at_best(executor.sizes))):
        calibrate(log, executor)
        # How long things take is known now; a proof may end late.
        proof_s = executor.pace.factor * _proof_s(executor.sizes)
        if log.budget.affords(proof_s, keep_s=-MOST_LATE * log.budget.total_s):
            log.doing("recording losses, batches and random states of the baseline, for the gate")
            gate.look()
    search = Search(log, executor, gate)
    search.run()
    return search


def _look(log: StudyLog) -> Sizes:
    """The baseline, timed: where does a step's time go?"""
    if not log.study.baseline:
        log.doing(f"running {log.options.title} as it is")
        plan = replace(log.options.plan, profilers=PROFILERS, whole_epoch=True, enough_s=enough_s(log.options))
        run = first_look(log, plan)
        total_steps = log.options.total_steps or _length(run)
        # At once: a study that goes on has no findings where it has a baseline without them.
        log.change(
            "baseline",
            baseline=(run,),
            machine=log.machine,
            total_steps=total_steps,
            findings=findings_of(run, log.machine),
            ceilings=ceilings(run),
        )
        log.change("findings")
    sizes = Sizes.of(log.study.baseline[0], log.machine)
    if _at_best(sizes).trial_group_s(EQUAL + 1) > _LONG_TRIAL_GROUP_S:
        log.extend()
    return sizes


def _proof_s(sizes: Sizes) -> float:
    """Without so much time nothing can be shown, even if all goes well."""
    return _FEWEST_TRIAL_GROUPS * sizes.trial_group_s(2) + _FEWEST_EVIDENCE * sizes.evidence_s()


def _at_best(sizes: Sizes) -> Sizes:
    """With starts as short as later ones may be."""
    return replace(sizes, setup_s=_LATER_STARTS * sizes.setup_s)


def _length(run: Run) -> int | None:
    """Steps that the training makes: as many as it came to its end with, else those of the loops that its first steps
    were in; None where these do not say, or are a part of it only."""
    if run.status is Status.ENDED:
        recorded = len(run.first_steps_s) + len(run.step_s)
        # Steps that were looked at more closely are not among the recorded ones.
        return max(recorded, run.shapes.num_steps if run.shapes is not None else 0)
    return None if run.trains_again is not None else run.planned_steps


def _why_not_several(run: Run) -> str | None:
    """Why levers are not tried in a training by several processes; None where they are, and for one process."""
    if run.world_size == 1 and trainers(run) > 1:
        return (
            f"{trainers(run)} processes train side by side here, without a process group: they take no turns, so "
            "hotlap tune cannot switch levers between their steps or prove training unharmed, and tries none."
        )
    if run.world_size in (1, len(run.ranks)):
        return None
    return (
        f"{run.world_size} processes train together here, and {len(run.ranks) or 1} of them could be followed: hotlap "
        "tune tries levers only where all of them run on this machine."
    )
