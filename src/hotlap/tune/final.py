"""The end of a study: the script as written, under the accepted levers, and as patched, in fresh processes."""

from collections.abc import Sequence
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.gate import Ruling
from hotlap.record import Interval, Result, Trial, Verdict
from hotlap.statistics import Progress
from hotlap.tune.comparison import LINE, Contender, compare
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court
from hotlap.tune.part import facts
from hotlap.tune.timing import Arm, Heat, Timing
from hotlap.tune.trials import Trials
from hotlap.units import factor

# Heats of the three; the claim of the whole study rests on them.
PLANNED = 4

_UNCHANGED = Interval(low=1.0, mid=1.0, high=1.0)


TIME_OVER = "The time was over before anything could be tried: nothing was compared, and nothing is changed."
"""Why nothing was tried."""


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
            why = (
                "No lever that was tried showed a gain above the noise and left training unharmed: nothing is changed."
            )
            self._desk.change("result", result=Result(levers=(), speedup=_UNCHANGED, verdict=Verdict.UNHARMED, why=why))
            return
        patched = self._patch()
        texts = dict(patched.texts) if patched else {}
        tuned, copy = Contender(name="levers"), Contender(name="patch")
        self._race(tuned, copy if texts else None, texts)
        speedup = tuned.speedup(self._desk.pooled("process"))
        if tuned.progress is not Progress.GAIN or speedup is None:
            self._did_not_hold(tuned, speedup)
            return
        self._desk.doing("checking that the patched script trains as the one written")
        ruling = self._court.judge(stack, replaced=texts) if texts else self._court.judge(stack)
        accepted = self._note_patch(copy, speedup, ruling) if texts else False
        if texts and not accepted:
            ruling = self._court.judge(stack)
        if ruling.verdict is not Verdict.UNHARMED:
            why = f"Faster, but the gate does not pass the levers together: {ruling.why}"
            self._desk.change("result", result=Result(levers=(), speedup=_UNCHANGED, verdict=ruling.verdict, why=why))
            return
        self._desk.change(
            "result",
            result=Result(levers=stack, speedup=speedup, verdict=ruling.verdict, why=ruling.why),
            after=tuned.run,
            patch=patched.diff if patched and accepted else None,
            changes=patched.changes if patched and accepted else (),
            baseline=(self._desk.study.baseline[0], *self._court.known),
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

    def _race(self, tuned: Contender, copy: Contender | None, texts: dict[str, str]) -> None:
        """The script as written against the levers, and against the patched copy with no lever installed."""
        self._desk.doing("comparing the result with the script as written, in fresh processes")
        settled = max((len(run.first_steps_s) for trial in self._desk.study.trials for run in trial.runs), default=0)
        entries = {"levers": Arm(), "patch": Arm(bare=True, replaced=texts, warmup=settled)}

        def heat(still: Sequence[Contender]) -> Heat:
            arms = [Arm(bare=True), *(entries[contender.name] for contender in still)]
            limit_s = self._desk.limit_s(self._timing.estimate_s(len(arms)))
            return self._timing.duet(self._trials.stack, arms, limit_s=limit_s)

        compare(
            [tuned, copy] if copy else [tuned],
            heat,
            pooled=self._desk.pooled("process"),
            planned=PLANNED,
        )

    def _note_patch(self, copy: Contender, speedup: Interval, ruling: Ruling) -> bool:
        """The patched copy is one more trial: same gain, same verdict. True if it may be handed out."""
        stack = self._trials.stack
        own = copy.speedup(self._desk.pooled("process"))
        holds = copy.progress is Progress.GAIN and own is not None and own.high >= speedup.low
        accepted = holds and ruling.verdict is Verdict.UNHARMED
        why = ruling.why
        if not holds:
            why = f"The patched copy does not show the same gain ({_told(copy, own)}), so no patch is handed out."
            self._desk.warn(why)
        trial = Trial(
            levers=stack,
            kind="patch",
            scope="process",
            speedup=own,
            verdict=ruling.verdict,
            accepted=accepted,
            why=why,
            log_ratios=tuple(copy.log_ratios),
        )
        self._desk.change("trial", trials=(*self._desk.study.trials, trial))
        return accepted

    def _did_not_hold(self, tuned: Contender, speedup: Interval | None) -> None:
        why = (
            f"Compared with the script as written in fresh processes, the accepted levers did not show {factor(LINE)} "
            f"again ({_told(tuned, speedup)}): nothing is changed."
        )
        self._desk.change("result", result=Result(levers=(), speedup=_UNCHANGED, verdict=Verdict.UNDECIDED, why=why))


def _told(contender: Contender, speedup: Interval | None) -> str:
    if contender.failure is not None:
        return contender.failure
    if speedup is None:
        return "it could not be timed"
    return f"{factor(speedup.mid)}, between {factor(speedup.low)} and {factor(speedup.high)}"
