"""Processes that train side by side without a process group (Hogwild): what fewer threads in each of them bring.

They take no turns, so nothing can be switched within a run: whole runs are compared, one after the other.
"""

from dataclasses import replace
from statistics import median

from hotlap.experiment import Runs
from hotlap.record import Run, WhatIf
from hotlap.rules.thread_oversubscription import fair_threads, threads_of_all
from hotlap.search import StudyLog
from hotlap.tune.first_look import FEWEST_STEPS, Wanted, look_plan
from hotlap.units import duration

# What the first look saw is compared with a run of fewer threads, then with one more as written.
_STEPS, _WARMUP = 60, 5
# Where steps are long, as they are with too many threads, a run ends about so long after its first step.
_ENOUGH_S = 8.0


def trainers(run: Run) -> int:
    """Processes of the command that train without taking turns."""
    ours = () if run.cpu is None else tuple(one for one in run.cpu.neighbours if one.ours)
    return 1 + len(ours)


def with_fewer_threads(log: StudyLog, runs: Runs, run: Run) -> Run:
    """The run as written, with what the same command took with fewer threads in every process."""
    fair = fair_threads(run)
    if fair is None or trainers(run) == 1:
        return run
    options = log.options
    wanted = Wanted(steps=_STEPS, warmup=_WARMUP, enough_s=_ENOUGH_S)
    limit_s = max(60.0, options.timeout_s)
    plan = look_plan(options.plan, wanted, limit_s=limit_s)
    log.doing(f"running {options.title} with {fair} thread{'s' * (fair != 1)} in each process")
    (fewer,) = runs([replace(plan, arms=(({"name": "threads", "count": fair},),))], limit_s=limit_s)
    if fewer.num_threads != fair or len(fewer.step_s) < FEWEST_STEPS:
        return run
    log.doing(f"running {options.title} again, to compare")
    (again,) = runs([plan], limit_s=limit_s)
    bases_s = [one.median_step_s() for one in (run, again) if len(one.step_s) >= FEWEST_STEPS]
    other_s = fewer.median_step_s()
    seen = WhatIf(
        setting="threads",
        whole_runs=True,
        now=run.num_threads,
        other=fair,
        now_s=median(bases_s),
        other_s=other_s,
        agree=sum(base_s > other_s for base_s in bases_s) / len(bases_s),
    )
    return replace(run, what_ifs=(*run.what_ifs, seen))


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
