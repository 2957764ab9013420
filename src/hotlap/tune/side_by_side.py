"""Processes that train side by side without a process group (Hogwild): what fewer threads in each of them bring.

They take no turns, so nothing can be switched within a run: whole runs are compared, one after the other.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hotlap.experiment import Arm, Effect
from hotlap.experiment.statistics import FALSE_CONFIRMATION, Progress, Rule
from hotlap.levers.threads import Threads
from hotlap.record import Result, Run, Verdict, WhatIf
from hotlap.rules.thread_oversubscription import fair_threads, threads_of_all
from hotlap.search import StudyLog
from hotlap.tune.first_look import FEWEST_STEPS
from hotlap.units import duration

_STEPS, _WARMUP = 60, 5
# Where steps are long, as they are with too many threads, a run ends about so long after its first step.
_ENOUGH_S = 8.0

PAIRS = 4
"""Pairs of whole runs in which a gain can be shown though nothing else is known of the noise (`Rule`)."""

Pairs = Sequence[tuple[Run, Run]]
"""Whole runs one after the other: of the baseline, and with fewer threads in every process."""

_NOT_COMPARED = (
    "The processes change one model without waiting for one another, so that no two runs agree: whether training is "
    "unharmed cannot be compared."
)


def trainers(run: Run) -> int:
    """Processes of the command that train without taking turns."""
    ours = () if run.cpu is None else tuple(one for one in run.cpu.neighbours if one.ours)
    return 1 + len(ours)


def whole_runs(log: StudyLog, run: Run, *, most: int = 1) -> list[tuple[Run, Run]]:
    """Up to so many pairs, as far as there is time; none where `run`, the first look, shows no need."""
    fair = fair_threads(run)
    if fair is None or trainers(run) == 1:
        return []
    options = log.options
    limit_s = max(60.0, options.timeout_s)
    baseline = replace(options.plan, steps=_STEPS, warmup=_WARMUP, enough_s=_ENOUGH_S, limit_s=limit_s)
    fewer = replace(baseline, arms=((Threads(count=fair).spec(),),))
    found: list[tuple[Run, Run]] = []
    took_s = 0.0
    while len(found) < most and (not found or log.budget.affords(took_s)):
        left_s = log.budget.left_s
        log.doing(
            f"running {options.title} with {fair} thread{'s' * (fair != 1)} in each process, and as it is "
            f"({len(found) + 1} of {most})"
        )
        # The first look was at the baseline; after it each is first in turn.
        order = (fewer, baseline) if len(found) % 2 == 0 else (baseline, fewer)
        made = [log.runs([plan], limit_s=limit_s)[0] for plan in order]
        base, other = made[::-1] if len(found) % 2 == 0 else made
        if other.num_threads != fair or min(len(base.step_s), len(other.step_s)) < FEWEST_STEPS:
            break
        found.append((base, other))
        took_s = left_s - log.budget.left_s
    return found


def with_fewer_threads(run: Run, pairs: Pairs) -> Run:
    """The baseline run, with what the same command took with fewer threads in every process."""
    if not pairs:
        return run
    seen = WhatIf(
        setting="threads",
        whole_runs=True,
        now=run.num_threads,
        other=pairs[0][1].num_threads,
        now_s=median(base.median_step_s() for base, _ in pairs),
        other_s=median(other.median_step_s() for _, other in pairs),
        agree=sum(base.median_step_s() > other.median_step_s() for base, other in pairs) / len(pairs),
    )
    return replace(run, what_ifs=(*run.what_ifs, seen))


def conclude(log: StudyLog, pairs: Pairs) -> None:
    """Write the pairs as a trial, and what they show as the result: its patch is a variable in front of the command."""
    if not pairs or log.study.trials:
        return
    spec = Threads(count=pairs[0][1].num_threads or 1).spec()
    ratios = [math.log(base.median_step_s() / other.median_step_s()) for base, other in pairs]
    effect = Effect(Arm(levers=(spec,)), ratios, runs=list(pairs))
    progress = Rule(planned=PAIRS, false_gain=FALSE_CONFIRMATION).progress(ratios, None)
    why = f"Whole runs were compared, one after the other. {_NOT_COMPARED}"
    log.add(replace(log.trial(effect, levers=(spec,)), why=why))
    speedup = effect.speedup(None)
    if progress is Progress.GAIN and speedup is not None:
        environment = {"OMP_NUM_THREADS": str(spec["count"])}
        result = Result(levers=(spec,), speedup=speedup, verdict=Verdict.UNDECIDED, why=why, environment=environment)
        log.change("result", result=result)


def why_not(run: Run) -> str | None:
    """Why levers are not tried where several processes train side by side; None for one process."""
    number = trainers(run)
    if number == 1:
        return None
    timed = threads_of_all(run)
    gain = ""
    if timed is not None and timed.other_s < timed.now_s:
        gain = (
            f" What helps was timed in whole runs: OMP_NUM_THREADS={timed.other} in front of the command, "
            f"{duration(timed.other_s)} a step in place of {duration(timed.now_s)}."
        )
    return (
        f"{number} processes train side by side here, without a process group: they take no turns, so hotlap tune "
        f"cannot switch levers between their steps or prove training unharmed, and tries none.{gain}"
    )
