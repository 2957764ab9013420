"""The end of a study: the script as written against its patched copy, or the accepted levers, in fresh processes."""

import math
from collections.abc import Sequence
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.gate import Ruling
from hotlap.record import LEAST_GAIN, Interval, Result, Trial, Verdict
from hotlap.statistics import FALSE_CONFIRMATION, Progress
from hotlap.tune.comparison import Contender, compare
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court, Stack
from hotlap.tune.one_time import break_even_step, too_late
from hotlap.tune.part import facts
from hotlap.tune.timing import Arm, Heat, Timing
from hotlap.tune.trials import Trials
from hotlap.units import factor

# Heats: so many, and up to so many where there is time. The claim of the whole study rests on them: with eight the
# track's chatty loop ended at 1.10x (1.03x to 1.18x), unshown.
PLANNED, MOST = 4, 16

_AS_WRITTEN = Arm(bare=True)

_UNCHANGED = Interval(low=1.0, mid=1.0, high=1.0)


TIME_OVER = "There was too little time to try any lever, so nothing is known of a gain; raise --budget."
"""Why nothing was tried."""

_NONE_WORTH_IT = "No lever was worth a trial here: nothing is changed."
_NONE_HELD = "No lever that was tried showed a gain above the noise and left training unharmed: nothing is changed."


def nothing_tried(why: str = TIME_OVER) -> Result:
    """What a study comes to that made no trial."""
    return Result(levers=(), speedup=_UNCHANGED, verdict=Verdict.UNDECIDED, why=why)


class Final:
    """Says what the study comes to."""

    def __init__(self, desk: Desk, timing: Timing, court: Court, trials: Trials) -> None:
        self._desk = desk
        self._timing = timing
        self._court = court
        self._trials = trials

    def confirm(self) -> None:
        """Result and patch."""
        stack = self._trials.stack
        if not stack:
            if self._trials.begun:
                self._nothing(_NONE_HELD, Verdict.UNHARMED)
            elif self._trials.worth_trying:
                self._desk.change("result", result=nothing_tried())
            else:
                self._nothing(_NONE_WORTH_IT, Verdict.UNHARMED)
            return
        patched = self._patch()
        if patched is None or not self._confirm_patch(stack, patched):
            self._confirm_levers(stack, told=patched is not None)

    def _confirm_patch(self, stack: Stack, patched: source.Patched) -> bool:
        """The patched copy, with no lever installed, is one more trial: same gain, same verdict. It stands for the
        levers then; False where it cannot."""
        self._desk.doing("comparing the patched script with the one written, in fresh processes")
        texts = dict(patched.texts)
        settled = max((len(run.first_steps_s) for trial in self._desk.study.trials for run in trial.runs), default=0)
        arm = Arm(bare=True, replaced=texts, warmup=settled)
        copy = self._race(Contender(name="patch"), arm)
        speedup = copy.speedup(self._desk.pooled("process"))
        if copy.progress is not Progress.GAIN or speedup is None or not self._keeps_its_promise(speedup, arm):
            why = f"The patched copy does not show the same gain ({_told(copy, speedup)}), so no patch is handed out."
            self._desk.warn(why)
            self._note_patch(stack, copy, Ruling(verdict=Verdict.UNDECIDED, why=why))
            return False
        self._desk.doing("checking that the patched script trains as the one written")
        ruling = self._court.judge(stack, replaced=texts)
        self._note_patch(stack, copy, ruling)
        if ruling.verdict is not Verdict.UNHARMED:
            return False
        if self._pays(copy, speedup):
            self._accept(stack, copy, speedup, ruling, patched)
        return True

    def _confirm_levers(self, stack: Stack, *, told: bool) -> None:
        """The levers, installed. `told`: the patched copy was compared before, and was not what it should be."""
        if told and self._desk.left_s < 2 * self._timing.estimate_s(2) + self._court.estimate_s(stack):
            self._nothing(
                "The patched copy did not show the accepted levers' gain unharmed, and there was no time to compare "
                "the levers without it: nothing is changed.",
                Verdict.UNDECIDED,
            )
            return
        self._desk.doing("comparing the result with the script as written, in fresh processes")
        tuned = self._race(Contender(name="levers"), Arm())
        speedup = tuned.speedup(self._desk.pooled("process"))
        if tuned.progress is not Progress.GAIN or speedup is None:
            self._nothing(
                "Compared with the script as written in fresh processes, the accepted levers did not show "
                f"{factor(LEAST_GAIN)} again with the certainty of {1 - FALSE_CONFIRMATION:.1%} that a claim needs "
                f"({_told(tuned, speedup)}): nothing is changed.",
                Verdict.UNDECIDED,
            )
            return
        ruling = self._court.judge(stack)
        if ruling.verdict is not Verdict.UNHARMED:
            self._nothing(f"Faster, but the gate does not pass the levers together: {ruling.why}", ruling.verdict)
        elif self._pays(tuned, speedup):
            self._accept(stack, tuned, speedup, ruling, None)

    def _pays(self, contender: Contender, speedup: Interval) -> bool:
        """What it all costs once has paid within the user's training; if not, nothing is changed."""
        late = too_late(_break_even(contender), self._desk.study.horizon)
        if late is not None:
            self._nothing(f"{factor(speedup.mid)} as fast a step, but {late}: nothing is changed.", Verdict.UNHARMED)
        return late is None

    def _accept(
        self, stack: Stack, contender: Contender, speedup: Interval, ruling: Ruling, patched: source.Patched | None
    ) -> None:
        self._desk.change(
            "result",
            result=Result(
                levers=stack,
                speedup=speedup,
                verdict=ruling.verdict,
                why=ruling.why,
                one_time_s=contender.one_time_s,
                break_even_step=_break_even(contender),
            ),
            after=contender.run,
            patch=patched.diff if patched else None,
            changes=patched.changes if patched else (),
            baseline=(self._desk.study.baseline[0], *self._court.known),
        )

    def _nothing(self, why: str, verdict: Verdict) -> None:
        self._desk.change("result", result=Result(levers=(), speedup=_UNCHANGED, verdict=verdict, why=why))

    def _keeps_its_promise(self, speedup: Interval, patched: Arm) -> bool:
        """The patched copy gains what the levers did. Where it seems to gain less, others' work on the machine may have
        come between their trials: then both are compared at the same time."""
        if speedup.high >= self._promised():
            return True
        self._desk.doing("comparing the patched script with the levers themselves")
        beside = Contender(name="patch beside levers")
        pooled = self._desk.pooled("process")
        self._race(beside, patched, base=Arm(), planned=2, line=1.0)
        ratio = beside.speedup(pooled)
        return ratio is not None and ratio.high > 1 / LEAST_GAIN

    def _promised(self) -> float:
        """The least speed-up of all accepted levers together, by their own trials."""
        stack = self._trials.stack
        return math.prod(
            trial.speedup.low
            for trial in self._desk.study.trials
            if trial.kind == "lever" and trial.accepted and trial.speedup and all(one in stack for one in trial.levers)
        )

    def _patch(self) -> source.Patched | None:
        """The accepted levers as source; None, with a warning, where they cannot be written."""
        known = facts(self._desk.study)
        edits = [edit for spec in self._trials.stack for edit in levers.from_spec(spec).edits(known)]
        try:
            patched = source.patch(edits, root=Path(self._desk.options.cwd))
        except UserError as error:
            self._desk.warn(f"No patch: {error}")
            return None
        return patched if patched.texts else None

    def _race(
        self,
        contender: Contender,
        arm: Arm,
        *,
        base: Arm = _AS_WRITTEN,
        planned: int | None = None,
        line: float = LEAST_GAIN,
    ) -> Contender:
        """`base` (the script as written) against `arm`, in processes of their own.

        `planned`: heats at most; None: as many as the time allows.
        """

        def heat(_: Sequence[Contender]) -> Heat:
            self._make_room()
            limit_s = self._desk.limit_s(self._timing.estimate_s(2))
            return self._timing.duet(self._trials.stack, [base, arm], limit_s=limit_s)

        pooled = self._desk.pooled("process")
        compare(
            [contender],
            heat,
            pooled=pooled,
            planned=self._affordable() if planned is None else planned,
            line=line,
            patient=True,
            false_gain=FALSE_CONFIRMATION,
        )
        return contender

    def _affordable(self) -> int:
        """Heats that leave time for the gate and a short race more. Said before the first, as looks are counted."""
        left_s = self._desk.left_s + self._desk.extension_s - self._court.estimate_s(self._trials.stack)
        return max(PLANNED, min(MOST, int(left_s / self._timing.estimate_s(2)) - 2))

    def _make_room(self) -> None:
        """Where the budget is ours to choose, it becomes the longer one for a heat that was said before the first: what
        was found must not be lost to noise."""
        if self._desk.left_s < self._court.estimate_s(self._trials.stack) + 3 * self._timing.estimate_s(2):
            self._desk.extend()

    def _note_patch(self, stack: Stack, copy: Contender, ruling: Ruling) -> None:
        trial = Trial(
            levers=stack,
            kind="patch",
            scope="process",
            speedup=copy.speedup(self._desk.pooled("process")),
            verdict=ruling.verdict,
            accepted=ruling.verdict is Verdict.UNHARMED,
            why=ruling.why,
            log_ratios=tuple(copy.log_ratios),
            failure=copy.failure.kind if copy.failure else None,
        )
        self._desk.change("trial", trials=(*self._desk.study.trials, trial))


def _break_even(contender: Contender) -> int | None:
    return break_even_step(contender.one_time_s, contender.base, contender.run)


def _told(contender: Contender, speedup: Interval | None) -> str:
    if contender.failure is not None:
        return contender.failure.why
    if speedup is None:
        return "it could not be timed"
    return f"{factor(speedup.mid)}, between {factor(speedup.low)} and {factor(speedup.high)}"
