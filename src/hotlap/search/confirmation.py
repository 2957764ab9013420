"""The end of a study: the script as written against its patched copy, or the accepted levers, in fresh processes."""

import math
import os
from dataclasses import replace
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.experiment import AS_WRITTEN, Arm, Design, Effect, Executor, Rule, compare, statistics
from hotlap.experiment.statistics import FALSE_CONFIRMATION
from hotlap.experiment.total import too_late, total_speedup
from hotlap.gate import Ruling
from hotlap.record import LEAST_GAIN, Interval, Result, Verdict
from hotlap.search.search import Gate, Search
from hotlap.search.study_log import StudyLog, facts
from hotlap.units import factor

# Heats: so many, and up to so many where there is time. The claim of the whole study rests on them: with eight the
# track's chatty loop ended at 1.10x (1.03x to 1.18x), unshown.
PLANNED, MOST = 4, 16

# An epoch of up to so many times the steps of a heat is followed to its end, to see what its start and a validation
# cost. (A plan goes on to four times its steps at most.)
_EPOCHS_OF = 3

# The patched copy beside the levers: an interval is wanted, and is above 1 or not.
_BESIDE = Rule(planned=statistics.FEWEST_SHOWN, line=1.0, patient=True, false_gain=FALSE_CONFIRMATION)

_UNCHANGED = Interval(low=1.0, mid=1.0, high=1.0)


TIME_OVER = "There was too little time to try any lever, so nothing is known of a gain; raise --budget."
"""Why nothing was tried."""

_CERTAINTY = f"{factor(LEAST_GAIN)} again with the certainty of {1 - FALSE_CONFIRMATION:.1%} that a claim needs"

_NO_TIME = (
    "The patched copy did not show the accepted levers' gain unharmed, and there was no time to compare the levers "
    "without it: nothing is changed."
)
_NONE_WORTH_IT = "No lever was worth a trial here: nothing is changed."
_NONE_HELD = "No lever that was tried showed a gain above the noise and left training unharmed: nothing is changed."


def nothing_tried(why: str = TIME_OVER) -> Result:
    """What a study comes to that made no trial."""
    return Result(levers=(), speedup=_UNCHANGED, verdict=Verdict.UNDECIDED, why=why)


class Confirmation:
    """Says what the study comes to, once the search is over."""

    def __init__(self, log: StudyLog, executor: Executor, gate: Gate, search: Search) -> None:
        self._log = log
        self._executor = executor
        self._gate = gate
        self._search = search
        self._stack = search.stack

    def run(self) -> None:
        """Result and patch. The patched copy stands for the levers; where it cannot, they are compared themselves."""
        if not self._stack:
            self._without_levers()
            return
        patched = self._patch()
        if patched is None:
            self._confirm_levers()
        elif not self._confirm_patch(patched):
            takes_s = 2 * self._executor.estimate_s(afresh=True) + self._gate.estimate_s(self._stack)
            if self._log.budget.left_s < takes_s:
                self._nothing(_NO_TIME, Verdict.UNDECIDED)
            else:
                self._confirm_levers()

    def _without_levers(self) -> None:
        if self._search.in_vain:
            self._nothing(" ".join(self._search.in_vain.values()), Verdict.UNDECIDED)
        elif self._search.begun:
            self._nothing(_NONE_HELD, Verdict.UNHARMED)
        elif self._search.worth_trying:
            self._log.change("result", result=nothing_tried())
        else:
            self._nothing(_NONE_WORTH_IT, Verdict.UNHARMED)

    def _confirm_patch(self, patched: source.Patched) -> bool:
        """The patched copy, with no lever installed but those that it is started with, is one more trial: same gain,
        same verdict. False where it does not stand for the levers."""
        self._log.doing("comparing the patched script with the one written, in fresh processes")
        texts = dict(patched.texts)
        settled = max((len(run.first_steps_s) for trial in self._log.study.trials for run in trial.runs), default=0)
        arm = Arm(bare=True, levers=levers.started_with(self._stack), replaced=texts, warmup=settled)
        copy = self._compare(arm)
        if not (copy.gained and self._gains_as_much(copy)):
            missed = "the same gain" if copy.gained else _CERTAINTY
            why = f"The patched copy did not show {missed} ({self._seen(copy)}), so no patch is handed out."
            self._log.warn(why)
            ruling = Ruling(verdict=Verdict.UNDECIDED, why=why)
        else:
            self._log.doing("checking that the patched script trains as the one written")
            ruling = self._gate.judge(self._stack, replaced=texts)
        unharmed = ruling.verdict is Verdict.UNHARMED
        trial = self._log.trial(copy, levers=self._stack, kind="patch")
        self._log.add(replace(trial, verdict=ruling.verdict, accepted=unharmed, why=ruling.why))
        if unharmed:
            self._conclude(copy, ruling, patched)
        return unharmed

    def _confirm_levers(self) -> None:
        """The levers, installed."""
        self._log.doing("comparing the result with the script as written, in fresh processes")
        tuned = self._compare(Arm())
        if not tuned.gained:
            self._nothing(
                "Compared with the script as written in fresh processes, the accepted levers did not show "
                f"{_CERTAINTY} ({self._seen(tuned)}): nothing is changed.",
                Verdict.UNDECIDED,
            )
            return
        ruling = self._gate.judge(self._stack)
        if ruling.verdict is Verdict.UNHARMED:
            self._conclude(tuned, ruling, None)
        else:
            self._nothing(f"Faster, but the gate does not pass the levers together: {ruling.why}", ruling.verdict)

    def _conclude(self, effect: Effect, ruling: Ruling, patched: source.Patched | None) -> None:
        """It is faster, and unharmed: that is the result, unless the user's whole training gains nothing by it."""
        speedup = effect.speedup(self._log.pooled("process"))
        assert speedup is not None, "a patient rule ends with an interval"
        total = total_speedup(
            effect.pairs,
            num_steps=self._log.study.total_steps,
            epoch_steps=facts(self._log.study).epoch_steps(),
            pooled=self._log.pooled("process"),
        )
        late = self._comes_too_late(effect, total)
        if late is not None:
            self._nothing(f"{factor(speedup.mid)} as fast a step, but {late}: nothing is changed.", Verdict.UNHARMED)
            return
        self._log.change(
            "result",
            result=Result(
                levers=self._stack,
                speedup=speedup,
                total_speedup=total,
                verdict=ruling.verdict,
                why=ruling.why,
                one_time_s=effect.one_time_s,
                break_even_step=effect.break_even_step,
                environment=levers.environment_of(levers.started_with(self._stack), os.environ),
            ),
            after=effect.run,
            patch=patched.diff if patched else None,
            changes=patched.changes if patched else (),
            baseline=(self._log.study.baseline[0], *self._gate.known),
        )

    def _comes_too_late(self, effect: Effect, total: Interval | None) -> str | None:
        """Why the user's whole training takes no less time, what it all costs once included; None if it does."""
        num_steps = self._log.study.total_steps
        late = too_late(effect.break_even_step, num_steps)
        if late is not None or num_steps is None or total is None or total.low > 1.0:
            return late
        return (
            f"a whole training of {num_steps:,} steps came out at {factor(total.mid)} (between {factor(total.low)} "
            f"and {factor(total.high)}), which cannot be told from none"
        )

    def _nothing(self, why: str, verdict: Verdict) -> None:
        self._log.change("result", result=Result(levers=(), speedup=_UNCHANGED, verdict=verdict, why=why))

    def _gains_as_much(self, copy: Effect) -> bool:
        """The patched copy gains what the levers did. Where it seems to gain less, others' work on the machine may have
        come between their trials: then both are compared at the same time."""
        speedup = copy.speedup(self._log.pooled("process"))
        if speedup is not None and speedup.high >= self._least_gain():
            return True
        self._log.doing("comparing the patched script with the levers themselves")
        ratio = self._compare(copy.arm, base=Arm(), rule=_BESIDE).speedup(self._log.pooled("process"))
        return ratio is not None and ratio.high > 1 / LEAST_GAIN

    def _least_gain(self) -> float:
        """The least speed-up of all accepted levers together, by their own trials."""
        spans = [
            statistics.interval(trial.log_ratios, pooled_variance=self._log.pooled(trial.scope))
            for trial in self._log.study.trials
            if trial.kind == "lever" and trial.accepted and all(one in self._stack for one in trial.levers)
        ]
        return math.prod(span.low for span in spans if span is not None)

    def _patch(self) -> source.Patched | None:
        """The accepted levers as source; None, with a warning, where they cannot be written."""
        edits = levers.edits_of(self._stack, facts(self._log.study))
        try:
            patched = source.patch(edits, root=Path(self._log.options.cwd))
        except UserError as error:
            self._log.warn(f"No patch: {error}")
            return None
        return patched if patched.texts else None

    def _compare(self, arm: Arm, *, base: Arm = AS_WRITTEN, rule: Rule | None = None) -> Effect:
        """`base` against `arm`, in processes of their own. `rule`: None: that of a claim, with as many heats as there
        is time for."""
        epoch = facts(self._log.study).epoch_steps()
        epoch_end = epoch is not None and epoch <= _EPOCHS_OF * self._executor.sizes.steps
        effect = Effect(arm)
        compare(
            [effect],
            self._executor,
            Design(arms=(base,), stack=self._stack, epoch_end=epoch_end, afresh=True),
            pooled=self._log.pooled("process"),
            rule=rule or Rule(planned=self._affordable(), patient=True, false_gain=FALSE_CONFIRMATION),
            time_left=self._make_room,
        )
        return effect

    def _affordable(self) -> int:
        """Heats that leave time for the gate and a few more. Said before the first, as looks are counted."""
        left_s = self._log.budget.left_s + self._log.budget.extension_s - self._gate.estimate_s(self._stack)
        return max(PLANNED, min(MOST, int(left_s / self._executor.estimate_s(afresh=True)) - 2))

    def _make_room(self) -> bool:
        """All heats that were said before the first are made. Where the budget is ours to choose, it becomes the longer
        one for them: what was found must not be lost to noise."""
        if self._log.budget.left_s < self._gate.estimate_s(self._stack) + 3 * self._executor.estimate_s(afresh=True):
            self._log.extend()
        return True

    def _seen(self, effect: Effect) -> str:
        """What a comparison came to, in words."""
        speedup = effect.speedup(self._log.pooled("process"))
        if effect.failure is not None:
            return effect.failure.why
        if speedup is None:
            return "it could not be timed"
        return f"{factor(speedup.mid)}, between {factor(speedup.low)} and {factor(speedup.high)}"
