"""Processes that train side by side without a process group (Hogwild): what fewer threads in each of them bring.

They take no turns, so nothing can be switched within a run: whole runs are compared, one after the other.
"""

from dataclasses import replace
from statistics import median

from hotlap.experiment import Arm, Comparison, Design, Effect, Rule, Sizes, compare
from hotlap.experiment.statistics import FALSE_CONFIRMATION
from hotlap.levers.threads import Threads
from hotlap.record import Result, Run, Verdict, WhatIf
from hotlap.rules.thread_oversubscription import fair_threads, other_threads
from hotlap.search import StudyLog
from hotlap.units import duration, plural

PAIRS = 4
"""Pairs of whole runs in which a gain can be shown though nothing else is known of the noise (`Rule`)."""

_NOT_COMPARED = (
    "The processes change one model without waiting for one another, so that no two runs agree: whether training is "
    "unharmed cannot be compared."
)


def trainers(run: Run) -> int:
    """Processes of the command that train without taking turns."""
    ours = () if run.cpu is None else tuple(one for one in run.cpu.neighbours if one.ours)
    return 1 + len(ours)


def fewer_threads(log: StudyLog, run: Run, *, most: int = 1) -> Effect | None:
    """Up to so many pairs of runs, one after the other, as there is time; None where `run`, the first look, shows no
    need, or where what was asked for did not reach the processes."""
    fair = fair_threads(run)
    if fair is None or run.world_size > 1 or trainers(run) == 1:
        return None
    sizes = replace(Sizes.of(run, log.machine), together=1)
    executor = log.executor(sizes, limit=lambda _: 2 * max(60.0, log.options.timeout_s))
    effect = Effect(Arm(installed=(Threads(count=fair).spec(),)))
    log.doing(f"running {log.options.title} with {plural(fair, 'thread')} in each process, and as it is")
    one = Comparison(
        effects=[effect],
        design=Design(),
        rule=Rule(planned=most, false_gain=FALSE_CONFIRMATION),
        time_left=lambda: not effect.runs or log.budget.affords(executor.estimate_s()),
    )
    compare(executor, one)
    return effect if effect.runs and all(other.num_threads == fair for _, other in effect.runs) else None


def with_fewer_threads(run: Run, effect: Effect | None) -> Run:
    """The baseline run, with what the same command took with fewer threads in every process."""
    if effect is None:
        return run
    seen = WhatIf(
        setting="threads",
        whole_runs=True,
        now=run.num_threads,
        other=effect.runs[0][1].num_threads,
        now_s=median(base.median_step_s() for base, _ in effect.runs),
        other_s=median(other.median_step_s() for _, other in effect.runs),
        agree=sum(ratio > 0 for ratio in effect.log_ratios) / len(effect.runs),
    )
    return replace(run, what_ifs=(*run.what_ifs, seen))


def conclude(log: StudyLog, effect: Effect | None) -> None:
    """Write the pairs as a trial, and what they show as the result: its patch is a variable in front of the command."""
    if effect is None or log.study.trials:
        return
    (spec,) = effect.arm.installed
    why = f"Whole runs were compared, one after the other. {_NOT_COMPARED}"
    log.add(replace(log.trial(effect, levers=(spec,)), why=why))
    speedup = effect.speedup(None)
    if effect.gained and speedup is not None:
        environment = {"OMP_NUM_THREADS": str(spec["count"])}
        result = Result(levers=(spec,), speedup=speedup, verdict=Verdict.UNDECIDED, why=why, environment=environment)
        log.change("result", result=result)


def why_not(run: Run) -> str | None:
    """Why levers are not tried where several processes train side by side; None for one process."""
    number = trainers(run)
    if number == 1:
        return None
    timed = other_threads(run, whole_runs=True)
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
