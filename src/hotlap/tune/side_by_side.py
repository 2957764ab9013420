"""Processes that train side by side without a process group (Hogwild): what fewer threads in each of them bring.

They take no turns, so nothing can be switched within a run: two whole runs are compared, one after the other.
"""

from dataclasses import replace

from hotlap.experiment import Arm, Design, Sizes
from hotlap.levers.threads import Threads
from hotlap.record import Run, WhatIf
from hotlap.rules.thread_oversubscription import fair_threads, other_threads
from hotlap.search import StudyLog
from hotlap.units import duration, plural


def trainers(run: Run) -> int:
    """Processes of the command that train without taking turns."""
    return 1 + sum(one.ours for one in (run.cpu.neighbours if run.cpu is not None else ()))


def with_fewer_threads(log: StudyLog, run: Run) -> Run:
    """The baseline run, with what the same command took with fewer threads in every process; as it is where it shows
    no need, or where what was asked for did not reach the processes."""
    fair = fair_threads(run)
    if fair is None or run.world_size > 1 or trainers(run) == 1:
        return run
    sizes = replace(Sizes.of(run, log.machine), together=1)
    executor = log.executor(sizes, limit=lambda _: 2 * max(60.0, log.options.timeout_s))
    log.doing(f"running {log.options.title} with {plural(fair, 'thread')} in each process, and as it is")
    trial_group = executor.trial_group(Design(arms=(Arm(), Arm(installed=(Threads(count=fair).spec(),)))))
    (ratio,), (base, other) = trial_group.log_ratios, trial_group.runs
    if ratio is None or other.num_threads != fair:
        return run
    seen = WhatIf(
        setting="threads",
        whole_runs=True,
        now=run.num_threads,
        other=fair,
        now_s=base.median_step_s(),
        other_s=other.median_step_s(),
        agree=float(ratio > 0),
        log_ratios=(ratio,),
    )
    return replace(run, what_ifs=(*run.what_ifs, seen))


def why_not(run: Run) -> str | None:
    """Why levers are not tried where several processes train side by side; None for one process."""
    number = trainers(run)
    if number == 1:
        return None
    timed = other_threads(run, whole_runs=True)
    gain = ""
    if timed is not None and timed.other_s < timed.now_s:
        gain = (
            f" Try OMP_NUM_THREADS={timed.other} in front of the command: one run with it took "
            f"{duration(timed.other_s)} a step, one without {duration(timed.now_s)}."
        )
    return (
        f"{number} processes train side by side here, without a process group: they take no turns, so hotlap tune "
        f"cannot switch levers between their steps or prove training unharmed, and tries none.{gain}"
    )
