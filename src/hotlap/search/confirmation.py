"""The end of a study: the baseline against its patched copy, in fresh processes, and whole trainings by the clock."""

import os
from dataclasses import replace
from itertools import islice
from statistics import fmean

from hotlap import levers
from hotlap.experiment import Arm, Comparison, Design, Effect, Executor, Rule, Stack, compare
from hotlap.experiment.statistics import FALSE_CONFIRMATION, FEWEST_SHOWN, fewest_for_a_gain
from hotlap.experiment.total import EndsS, in_any_hour, total_s, total_speedup, whole_speedup
from hotlap.gate import Ruling
from hotlap.levers import Scope
from hotlap.record import LEAST_GAIN, Interval, Result, Run, Status, Verdict
from hotlap.search.gate_runs import GateRuns
from hotlap.search.reasons import crowded, length, unchanged
from hotlap.search.study_log import StudyLog
from hotlap.units import factor, percent

# Trial groups: so many, and up to so many where there is time. The claim of the whole study rests on them: with eight
# the track's chatty loop ended at 1.10x (1.03x to 1.18x), unshown.
PLANNED, MOST = 4, 16

# The fewest are made beyond the budget as well, but for no longer than this part of it: on a machine that others crowd
# (ten programs on two cores) four trial groups took ten minutes where thirty seconds were expected.
_LATE = 0.25

# Pairs of whole trainings, where there is time for them: nothing tells truer what the user gains. (How much processes
# differ, the trial groups before them say.) Twice as many where the gain is expected to be below `_MUCH`.
_WHOLE = 4
_MUCH = 1.5

# Part of the budget that the end of a study keeps free for one pair. What takes longer is made of what is left.
# (With a quarter a training of 19 s was told by some steps of it, as 1.15x; by the clock it took as long as before: a
# compiled model is compiled once more for the first validation, which came behind those steps. Time for a second pair
# is not kept: weighed with what steps tell it takes nothing off the total's error in a disturbed hour, 0.7% in a quiet
# one (tests/property/test_totals.py), and levers would find no time instead.)
_FOR_WHOLE = 0.4

WholeS = tuple[tuple[float, float], ...]
"""Seconds of whole trainings of the baseline and of its patched copy, one after the other."""


def whole_trainings_s(log: StudyLog, gate: GateRuns) -> float:
    """What one pair takes of the budget at the end of the study; 0 where that is too much of it, or not known."""
    base_s = _expected_s(log, log.study.baseline[0], end_s=gate.epoch_ends_s()[0])
    pair_s = 2 * base_s if base_s is not None else 0.0
    return max(0.0, pair_s - log.budget.extension_s) if pair_s <= _FOR_WHOLE * log.budget.total_s else 0.0


def _expected_s(log: StudyLog, run: Run, *, end_s: float) -> float | None:
    """Seconds of a whole training, from some steps of it; None where its length is not known, or the user named another
    than the script's own. `end_s`: of an epoch, where the run saw none."""
    if log.study.total_steps is None or log.options.total_steps is not None:
        return None
    return total_s(run, log.length, end_s=end_s)


def fewest_trial_groups(log: StudyLog, executor: Executor) -> int:
    """That a confirmation takes where the gain is clear."""
    return max(FEWEST_SHOWN, fewest_for_a_gain(log.pooled(_scope_of(executor))))


def _scope_of(executor: Executor) -> str:
    """Forks share more than processes that are started as the user's: their spread says nothing of these."""
    return "process" if executor.sizes.afresh_setup_s is None else "fresh"


class Confirmation:
    """Says what the study comes to, once the search has come to a stack of levers."""

    def __init__(self, log: StudyLog, executor: Executor, gate: GateRuns, stack: Stack) -> None:
        self._log = log
        self._executor = executor
        self._gate = gate
        self._stack = stack
        self._scope = _scope_of(executor)
        # Of earlier comparisons: this one must not count twice once its trial is in the study.
        self._pooled = log.pooled(self._scope)
        self._length = log.length
        self._left_s = min(0.0, log.budget.left_s + log.budget.extension_s)
        """Where the search itself has ended late: how late."""

    def run(self) -> None:
        """Result and patch: the accepted levers as they are handed over, once more, in fresh processes."""
        self._log.doing("comparing the patched script with the baseline, in fresh processes")
        copy = self._compare()
        speedup = copy.speedup
        whole_s: WholeS | str = ()
        if copy.gained:
            if self._gate.estimate_s(self._stack):
                self._log.doing("checking that the patched script trains as the baseline does")
            ruling = self._gate.judge(self._stack)
            whole_s = self._whole_s(copy) if ruling.verdict is Verdict.UNHARMED else ()
            if isinstance(whole_s, str):
                ruling = Ruling(verdict=Verdict.HARMED, why=whole_s)
            why = f"Faster, but the gate does not pass the levers together: {ruling.why}"
        else:
            seen = (
                "it could not be timed"
                if speedup is None
                else f"{factor(speedup.mid)}; by one look {_between(speedup)}"
            )
            why = (
                "Compared with the baseline in fresh processes, its patched copy did not show "
                f"{factor(LEAST_GAIN)} again with the certainty of {1 - FALSE_CONFIRMATION:.1%} over all looks "
                f"({copy.failure.why if copy.failure is not None else seen}): nothing is changed."
            )
            ruling = Ruling(verdict=Verdict.UNDECIDED, why=why)
        unharmed = ruling.verdict is Verdict.UNHARMED
        trial = self._log.trial(copy, levers=self._stack, kind="patch", scope=self._scope)
        self._log.add(replace(trial, verdict=ruling.verdict, accepted=unharmed, why=ruling.why))
        if unharmed and speedup is not None and not isinstance(whole_s, str):
            self._conclude(copy, speedup, ruling, whole_s)
        else:
            self._log.change("result", result=unchanged(why, ruling.verdict))

    def _conclude(self, copy: Effect, speedup: Interval, ruling: Ruling, whole_s: WholeS) -> None:
        """It is faster, and unharmed: that is the result, unless a whole training gains nothing by it."""
        total = whole_speedup(whole_s, copy.pairs, self._told_by_steps(copy), self._length)
        total = None if total is None else in_any_hour(total)
        if total is not None and total.low <= 1.0:
            comes_to = "cannot be told from none" if total.high >= 1.0 else "is no gain"
            between = [f" {one.evidence}" for one in self._log.study.findings if one.code == "frequent-validation"]
            why = (
                f"{factor(speedup.mid)} as fast a step, but {length(self._length.num_steps)} came out at "
                f"{factor(total.mid)} ({_between(total)}), which {comes_to}: nothing is changed.{''.join(between)}"
            )
            # Where it looks like a gain all the same, more time may tell.
            verdict = Verdict.UNDECIDED if total.mid > LEAST_GAIN else Verdict.UNHARMED
            self._log.change("result", result=unchanged(why, verdict))
            return
        compiles = any(levers.from_spec(spec).compiles for spec in self._stack)
        if compiles and total is not None and self._length.num_steps is not None:
            self._tell_of_compiling(copy, total, whole_s)
        # No change where all levers are variables of the environment.
        patched = self._log.script.patched(self._stack)
        beside, after = copy.typical_pair or (None, copy.run)
        for doubt in (self._why_doubtful(speedup, beside), crowded(self._log.study.baseline[0], self._stack)):
            if doubt is not None:
                self._log.warn(doubt)
        result = Result(
            levers=self._stack,
            speedup=speedup,
            total_speedup=total,
            whole_s=whole_s,
            verdict=ruling.verdict,
            why=ruling.why,
            one_time_s=copy.one_time_s,
            break_even_step=copy.break_even_step,
            environment=levers.environment_of(self._stack, os.environ),
        )
        patch, changes = patched.diff or None, patched.changes
        self._log.change("result", result=result, beside=beside, after=after, patch=patch, changes=changes)

    def _told_by_steps(self, copy: Effect) -> Interval | None:
        """The total, as it comes of the steps of processes."""
        taken = [levers.from_spec(spec) for spec in self._stack]
        if any(lever.compiles for lever in taken):
            # A compiled model is compiled once more for its first validation, the only one that the gate saw.
            return self._total(copy, ends_s=(0.0, 0.0))
        base_s, first_s = self._gate.epoch_ends_s()
        total = self._total(copy, ends_s=(base_s, first_s))
        if total is None or not first_s >= base_s > 0.0 or all(lever.scope is not Scope.LOADER for lever in taken):
            return total
        # The first end of an epoch is no shorter: a cache of validation items may be filled in it, and never again.
        best = self._total(copy, ends_s=(base_s, 0.0))
        return total if best is None else replace(total, high=best.high)

    def _total(self, copy: Effect, *, ends_s: EndsS) -> Interval | None:
        return total_speedup(
            copy.pairs,
            self._length,
            pooled=self._pooled,
            ends_s=ends_s,
            alone=self._log.study.baseline[0] if self._executor.sizes.together > 1 else None,
        )

    def _tell_of_compiling(self, effect: Effect, total: Interval, whole_s: WholeS) -> None:
        """What is compiled once more lies behind the steps that were timed, and what trials compiled before them."""
        self._log.warn(
            f"Runs before those of the total of {factor(total.mid)} left what torch.compile made in its cache on disk: "
            "the first training on another machine takes longer by what compiling it anew does."
        )
        if not whole_s and not any(run.num_validations for pair in effect.pairs for run in pair):
            self._log.warn(
                f"The total of {factor(total.mid)} holds no validation, as none came within the steps that were timed: "
                "a compiled model is compiled once more for the first one."
            )

    def _why_doubtful(self, speedup: Interval, beside: Run | None) -> str | None:
        """A sentence if it is more than the levers can save, by the first run and by one of those compared with."""
        study, share = self._log.study, 0.0
        runs = [run for run in (study.baseline[0], beside) if run is not None and run.step_s]
        for lever in map(levers.from_spec, self._stack):
            share += max(lever.saves_at_most_s(run, study.ceilings) / fmean(run.step_s) for run in runs)
        if share >= 1 or speedup.low <= 1 / (1 - share):
            return None
        return (
            f"Doubt the {factor(speedup.mid)} a step: what was changed acts on {percent(share)} of it, which would be "
            f"{factor(1 / (1 - share))} if that were free. Something else changed as well, such as what other programs "
            "left of the machine: run it again."
        )

    def _compare(self) -> Effect:
        """Processes of their own, and as many of them as there is time for."""
        effect = Effect(Arm(levers=self._stack), self._pooled)
        one = Comparison(
            effects=[effect],
            design=Design(afresh=True),
            rule=Rule(planned=self._affordable(), patient=True, false_gain=FALSE_CONFIRMATION),
            time_left=lambda: self._has_time(effect),
        )
        compare(self._executor, one)
        return effect

    def _affordable(self) -> int:
        """Trial groups that leave time for the gate and a few more. Said before the first, as looks are counted."""
        left_s = self._log.budget.left_s + self._log.budget.extension_s - self._gate.estimate_s(self._stack)
        left_s -= whole_trainings_s(self._log, self._gate)
        return max(PLANNED, min(MOST, int(left_s / self._executor.estimate_s(afresh=True)) - 2))

    def _has_time(self, effect: Effect) -> bool:
        """The fewest trial groups are made somewhat late as well: what was found must not be lost to noise. Where the
        budget is ours to choose, it becomes the longer one for more."""
        gate_s, trial_group_s = self._gate.estimate_s(self._stack), self._executor.estimate_s(afresh=True)
        if self._log.budget.left_s < gate_s + 3 * trial_group_s:
            self._log.extend()
        keep_s, budget = whole_trainings_s(self._log, self._gate), self._log.budget
        if len(effect.log_ratios) < PLANNED and budget.left_s > self._left_s - _LATE * budget.total_s:
            return True
        return budget.affords(gate_s + trial_group_s, keep_s=keep_s)

    def _whole_s(self, effect: Effect) -> WholeS | str:
        """Whole trainings of the baseline and of its patched copy in turns; empty where there is no time for one of
        each, and a sentence without its full stop where the patched copy, and it alone, does not come to its end.
        `effect`: how the two compared."""
        if effect.typical_pair is None:
            return ()
        end_s, _ = self._gate.epoch_ends_s()  # that of the patched copy may hold what is done once
        base_s, patched_s = (_expected_s(self._log, run, end_s=end_s) for run in effect.typical_pair)
        if base_s is None or patched_s is None:
            return ()
        pair_s, budget = base_s + patched_s, self._log.budget
        wanted = _WHOLE if base_s > _MUCH * patched_s else 2 * _WHOLE
        if budget.left_s < pair_s:
            self._log.extend(wanted * pair_s)
        affordable = int(budget.left_s / pair_s)
        if not affordable:
            return ()
        self._log.doing("running the whole training as it is and patched, in turns, from start to end")
        made: list[tuple[float, float]] = []
        design = Design(arms=(Arm(), Arm(levers=self._stack)), afresh=True)
        trainings = self._executor.whole(design, limit_s=budget.limit_s(base_s))
        for base, patched in islice(trainings, min(wanted, affordable)):
            if base.whole_s is not None and patched.status in (Status.CRASHED, Status.KILLED):
                why = patched.error or "no reason recorded"
                return f"the whole training, patched, does not come to its end: {why}"
            if base.whole_s is None or patched.whole_s is None:
                return ()
            made.append((base.whole_s, patched.whole_s))
        return tuple(made)


def _between(speedup: Interval) -> str:
    return f"between {factor(speedup.low)} and {factor(speedup.high)}"
