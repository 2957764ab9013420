"""Two versions of a script -> does the second one train the same, and is it not slower?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from hotlap.errors import ScriptFailed
from hotlap.experiment import Arm, Comparison, Design, Effect, Executor, Rule, Sizes, compare
from hotlap.experiment.failure import Failed, failed
from hotlap.experiment.statistics import FEWEST_SHOWN, Progress
from hotlap.experiment.total import Length, total_speedup
from hotlap.gate import Ruling
from hotlap.levers import Numerics
from hotlap.record import Failure, Interval, Run, Verdict
from hotlap.search import GateRuns, StudyLog
from hotlap.tune.first_look import enough_s, first_look
from hotlap.tune.unseen import without_unseen

# Pairs of processes: with fewer no interval is shown, and more narrow it by little.
_FEWEST_PAIRS, _MOST_PAIRS = FEWEST_SHOWN + 1, 16

# What all looks together may spend on a version that is slower by more than the limit and said not to be.
_FALSE_VERDICT = 0.0125

CONTRACTS = (Numerics.EXACT, Numerics.ROUNDING, Numerics.STATISTICAL)
"""What a version may be held to, the strictest first."""


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


def checked(
    log: StudyLog,
    texts: Mapping[str, str],
    *,
    before: Mapping[str, str],
    weakest: Numerics = Numerics.STATISTICAL,
    limit: float = 0.02,
) -> Checked:
    """Look at the first version, hold the second to it, and time both in turns in what is left of the budget: another
    training is not timed. It may end late by what the fewest pairs take, for whichever answer needs that.

    Arguments:
        texts: path of a source file of the first version -> its text in the second.
        before: the same path -> its text in the first.
        weakest: what the second may be held to at least.
        limit: the regression that is tolerated.

    Raises:
        ScriptFailed: one of them fails. NoSteps: the first makes no, or too few, training steps.
    """
    log.doing(f"running {log.options.title} as it is")
    run = first_look(log, replace(log.options.plan, enough_s=enough_s(log.options)))
    log.change("baseline", baseline=(run,), machine=log.machine)
    executor = log.executor(Sizes.of(run, log.machine))
    gate = GateRuns(log, executor)
    late_s = _FEWEST_PAIRS * executor.estimate_s(afresh=True)
    ruling, contract = _held(log, gate, texts, CONTRACTS[: CONTRACTS.index(weakest) + 1], late_s=late_s)
    if ruling.verdict is Verdict.UNHARMED:
        ruling = without_unseen(log, executor.sizes, gate, ruling, before=before, after=texts)
    effect = _timed(log, executor, texts, limit) if _is_timed(ruling, log, executor) else None
    pairs = () if effect is None else effect.pairs
    return Checked(
        verdict=ruling.verdict,
        contract=str(contract),
        why=ruling.why,
        speed=Speed.INCONCLUSIVE if effect is None else _speed(effect, limit),
        step=None if effect is None else effect.speedup,
        total=_total(pairs, run) if len(pairs) >= FEWEST_SHOWN else None,
        limit=limit,
        warnings=log.study.warnings,
    )


def _held(
    log: StudyLog, gate: GateRuns, texts: Mapping[str, str], contracts: Sequence[Numerics], *, late_s: float
) -> tuple[Ruling, Numerics]:
    """The first of the contracts that holds; else the last one that there was time for, `late_s` after the budget's end
    included. Of what is harm whatever was promised no later one thinks better."""
    why, before = "", contracts[0]
    for contract in contracts:
        if why and not log.budget.affords(gate.estimate_s((), contract), keep_s=-late_s):
            why = f"{why} There was no time to hold it to less ({contract}), which may pass it: raise --budget."
            return Ruling(verdict=Verdict.UNDECIDED, why=why), before
        log.doing(f"checking that both train the same ({contract})")
        is_last = contract is contracts[-1]
        # What a later contract may see otherwise need not be certain.
        ruling = gate.judge((), replaced=texts, numerics=contract, again=is_last)
        _refuse(next(filter(None, map(failed, gate.found)), None))
        if is_last or ruling.verdict is Verdict.UNHARMED:
            break
        if ruling.verdict is Verdict.HARMED and (harm := gate.harm_by_any()) is not None:
            return harm, contracts[-1]
        why, before = ruling.why, contract
    return ruling, contract


def _refuse(failure: Failed | None) -> None:
    if failure is not None:
        raise ScriptFailed(f"The second version cannot be compared: {failure.why}.")


def _is_timed(ruling: Ruling, log: StudyLog, executor: Executor) -> bool:
    """The same training is where the budget was not over before; one that is in doubt where the time is there."""
    if ruling.verdict is Verdict.UNHARMED:
        return log.budget.left_s > 0
    return ruling.verdict is Verdict.UNDECIDED and _affordable(log, executor) >= _FEWEST_PAIRS


def _affordable(log: StudyLog, executor: Executor) -> int:
    return int(log.budget.left_s / executor.estimate_s(afresh=True))


def _timed(log: StudyLog, executor: Executor, texts: Mapping[str, str], limit: float) -> Effect:
    log.doing("timing both versions in turns, in processes of their own")
    effect = Effect(Arm(replaced=texts))
    rule = Rule(
        planned=max(_FEWEST_PAIRS, min(_MOST_PAIRS, _affordable(log, executor))),
        line=1 / (1 + limit),
        false_gain=_FALSE_VERDICT,
        patient=True,
    )
    design = Design(epoch_end=executor.sizes.sees_end_of(log.study.baseline[0].epoch_steps()), afresh=True)
    compare(executor, Comparison(effects=[effect], design=design, rule=rule))
    too_few = effect.failure is not None and effect.failure.kind is Failure.TOO_FEW_STEPS
    _refuse(None if too_few else effect.failure)
    return effect


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
