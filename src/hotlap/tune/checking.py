"""Two versions of a script -> does the second one train the same, and is it not slower?"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

from hotlap.errors import NoSteps, ScriptFailed
from hotlap.experiment import Arm, Comparison, Design, Effect, Executor, Rule, Runs, Sizes, compare
from hotlap.experiment.failure import Failed, failed
from hotlap.experiment.statistics import FEWEST_SHOWN, Progress
from hotlap.experiment.total import Length, total_speedup
from hotlap.gate import Ruling
from hotlap.levers import Numerics
from hotlap.record import Failure, Interval, Plan, Run, Status, Verdict
from hotlap.search import GateRuns, StudyLog
from hotlap.search.costs import MOST_LATE
from hotlap.search.gate_runs import CONTRACTS
from hotlap.tune.first_look import enough_s, first_look
from hotlap.tune.unseen import with_marks, without_unseen

# Pairs of processes: with fewer no interval is shown, and more narrow it by little.
_FEWEST_PAIRS, _MOST_PAIRS = FEWEST_SHOWN + 1, 16

# A run that is asked to end takes so long at most, where its steps are no longer.
_TO_END_S = 10.0

# What all looks together may spend on a version that is slower by more than the limit and said not to be.
_FALSE_VERDICT = 0.0125

_NOT_COMPARED = "The time was over before it was compared how they train: raise --budget."
_NOT_LOOKED = "The time was over before it was known whether each edited line ran: raise --budget."


class Speed(StrEnum):
    """How long the second version's step is, beside the first one's."""

    FASTER = "faster"
    NOT_SLOWER = "not slower"
    """By more than the limit, clearly."""
    SLOWER = "slower"
    """By more than the limit, clearly."""
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of it."""

    verdict: Verdict
    """Of the gate."""
    contract: str
    """The strictest of `CONTRACTS` that held; else the last one that was tried."""
    why: str
    """One or two sentences: what was compared, and what was not."""
    speed: Speed
    step: Interval | None
    """Speed-up of a typical step; None where too few processes were timed."""
    total: Interval | None
    """Of a long training, starts of epochs included; None where they were not seen."""
    limit: float
    """The regression that is tolerated."""
    warnings: tuple[str, ...] = ()


class Check:
    """Two versions of a script: `run` compares them, and `found` is what is known of it at any time."""

    def __init__(
        self,
        log: StudyLog,
        texts: Mapping[str, str],
        *,
        before: Mapping[str, str],
        weakest: Numerics = Numerics.STATISTICAL,
        limit: float = 0.02,
    ) -> None:
        """
        Arguments:
            texts: path of a source file of the first version -> its text in the second.
            before: the same path -> its text in the first.
            weakest: what the second may be held to at least.
            limit: the regression that is tolerated.
        """
        self._log, self._texts, self._before, self._limit = log, texts, before, limit
        self._contracts = CONTRACTS[: CONTRACTS.index(weakest) + 1]
        self._contract = self._contracts[0]
        self._late_s = max(0.0, MOST_LATE * log.budget.total_s - _TO_END_S)
        self._ruling = Ruling(verdict=Verdict.UNDECIDED, why=_NOT_COMPARED)
        self._seen: Ruling | None = None
        """The same, where it was looked whether all that is edited had a part in it."""
        self._effect: Effect | None = None

    def run(self) -> Checked:
        """Look at the first version, hold the second to it, time both in turns, and see that all that is edited had a
        part in it: what comes first is worth most where the budget does not hold all. It ends late by a small part of
        the budget at most, for whichever answer needs that.

        Raises:
            ScriptFailed: one of them fails. NoSteps: the first makes no, or too few, training steps.
        """
        log = self._log
        log.runs = _InTime(log.runs, lambda: log.budget.total_s + self._late_s - log.budget.spent_s)
        log.doing(f"running {log.options.title} as it is")
        run = first_look(log, replace(log.options.plan, enough_s=enough_s(log.options)))
        log.change("baseline", baseline=(run,), machine=log.machine)
        executor = log.executor(Sizes.of(run, log.machine, budget_s=log.options.budget_s))
        gate = GateRuns(log, executor)
        with suppress(OutOfTime):
            self._hold(gate)
        same = self._ruling.verdict is Verdict.UNHARMED
        versions = with_marks(log, gate, before=self._before, after=self._texts) if same else []
        look_s = gate.takes_s([one.plan for one in versions])
        pairs_s = _FEWEST_PAIRS * executor.estimate_s(afresh=True)
        if self._ruling.verdict is not Verdict.HARMED:
            # Times of what is in doubt must not make it late.
            late_s = self._late_s if same else 0.0
            log.budget.later_s = look_s if log.budget.affords(look_s + pairs_s, keep_s=-late_s) else 0.0
            if log.budget.affords(pairs_s, keep_s=-late_s):
                with suppress(OutOfTime):
                    self._time(executor, late_s=late_s)
            log.budget.later_s = 0.0
        if same and log.budget.affords(look_s, keep_s=-self._late_s):
            with suppress(OutOfTime):
                self._seen = without_unseen(log, gate, versions, self._ruling)
        return self.found

    @property
    def found(self) -> Checked:
        """What came of it so far."""
        ruling, effect = self._ruling, self._effect
        if ruling.verdict is Verdict.UNHARMED:
            why = f"{ruling.why} {_NOT_LOOKED}"
            ruling = self._seen or Ruling(verdict=Verdict.UNDECIDED, why=why)
        pairs = () if effect is None else effect.pairs
        return Checked(
            verdict=ruling.verdict,
            contract=str(self._contract),
            why=ruling.why,
            speed=Speed.INCONCLUSIVE if effect is None else _speed(effect, self._limit),
            step=None if effect is None else effect.speedup,
            total=_total(pairs, self._log.study.baseline[0]) if len(pairs) >= FEWEST_SHOWN else None,
            limit=self._limit,
            warnings=self._log.study.warnings,
        )

    def _hold(self, gate: GateRuns) -> None:
        """The first of the contracts that holds; else the last one that there was time for. Of what is harm whatever
        was promised no later one thinks better."""
        log, before = self._log, self._ruling
        for contract in self._contracts:
            is_last = contract is self._contracts[-1]
            if contract is not self._contracts[0]:
                known = None if is_last else gate.harm_by(contract)
                if known is not None:  # other batches, say: what its runs would show besides changes nothing
                    before = known
                    continue
                less = f"There was no time to hold it to less ({contract}), which may pass it: raise --budget."
                self._ruling = Ruling(verdict=Verdict.UNDECIDED, why=f"{before.why} {less}")
                if not log.budget.affords(gate.estimate_s((), contract), keep_s=-self._late_s):
                    return
            log.doing(f"checking that both train the same ({contract})")
            # What a later contract may see otherwise need not be certain.
            ruling = gate.judge((), replaced=self._texts, numerics=contract, again=is_last)
            _refuse(next(filter(None, map(failed, gate.found)), None))
            self._contract = contract
            harm = gate.harm_by(self._contracts[-1]) if ruling.verdict is Verdict.HARMED and not is_last else None
            if is_last or harm is not None or ruling.verdict is Verdict.UNHARMED:
                self._contract = contract if harm is None else self._contracts[-1]
                self._ruling = harm or ruling
                return
            before = ruling

    def _time(self, executor: Executor, *, late_s: float) -> None:
        log = self._log
        log.doing("timing both versions in turns, in processes of their own")
        self._effect = effect = Effect(Arm(replaced=self._texts))

        def time_left() -> bool:
            few = len(effect.log_ratios) < _FEWEST_PAIRS
            return log.budget.affords(executor.estimate_s(afresh=True), keep_s=-late_s if few else 0.0)

        rule = Rule(
            planned=max(_FEWEST_PAIRS, min(_MOST_PAIRS, int(log.budget.left_s / executor.estimate_s(afresh=True)))),
            line=1 / (1 + self._limit),
            least=1 / (1 + self._limit),
            false_gain=_FALSE_VERDICT,
            patient=True,
        )
        one = Comparison(effects=[effect], design=Design(afresh=True), rule=rule, time_left=time_left)
        compare(executor, one)
        too_few = effect.failure is not None and effect.failure.kind is Failure.TOO_FEW_STEPS
        _refuse(None if too_few else effect.failure)


class OutOfTime(NoSteps):
    """The budget was over before these runs made a step."""


class _InTime:
    """Runs that are asked to end when there is no time left."""

    def __init__(self, runs: Runs, left_s: Callable[[], float]) -> None:
        self._runs, self._left_s = runs, left_s

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """As `Runs`.

        Raises:
            OutOfTime: there is no time, or one was ended without a step because of that.
        """
        left_s = self._left_s()
        found = self._runs(plans, limit_s=min(limit_s, left_s)) if left_s > 0 else []
        if self._left_s() > 0 or (found and all(run.status is not Status.HUNG for run in found)):
            return found
        raise OutOfTime("The budget was over before the training had made enough steps. Raise --budget.")


def _refuse(failure: Failed | None) -> None:
    if failure is not None:
        raise ScriptFailed(f"The second version cannot be compared: {failure.why}.")


def _speed(effect: Effect, limit: float) -> Speed:
    seen = effect.speedup
    if seen is None:
        return Speed.INCONCLUSIVE
    if effect.progress is Progress.GAIN:
        return Speed.FASTER if seen.low > 1 else Speed.NOT_SLOWER
    return Speed.SLOWER if seen.high < 1 / (1 + limit) else Speed.INCONCLUSIVE


def _total(pairs: Sequence[tuple[Run, Run]], run: Run) -> Interval | None:
    epoch_steps = run.epoch_steps()
    if epoch_steps is not None and not all(one.epoch_starts for pair in pairs for one in pair):
        return None  # what an epoch's start takes was not seen
    found = total_speedup(pairs, Length(None, epoch_steps), pooled=None)
    return found if found is not None and math.isfinite(found.high) else None
