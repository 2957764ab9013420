"""The user's step at several numbers of threads: measured in one process whose arms take turns, then explained."""

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from hotlap.experiment.design import Arm, Design
from hotlap.experiment.executor import Executor, not_installed
from hotlap.experiment.table import rounds
from hotlap.levers.threads import Threads
from hotlap.machine import threads
from hotlap.machine.figures import median_interval
from hotlap.record import Machine, Run, Sweep, ThreadTime

BLOCKS = 8
"""To be timed for each number of threads. Each gives one number; with 8 their median is bracketed with 99%."""


def thread_sweep(executor: Executor, counts: Sequence[int], machine: Machine, baseline: Run) -> Sweep:
    """The same step at each of these numbers of threads, switched between blocks of steps within one process.
    `baseline`: with the script's own number, and what doubt there is of a gain by fewer."""
    arms = tuple(Arm(levers=(Threads(count=count).spec(),)) for count in counts)
    (trial_group,) = executor.trial_groups(Design(arms=arms, switched=True))
    (run,) = trial_group.runs
    doubt = threads.crowded(baseline, "fewer")
    found = threads.explain(times(run, counts), machine, default_threads=baseline.num_threads, doubt=doubt)
    return replace(found, notes=run.not_installed)


def times(run: Run, counts: Sequence[int]) -> tuple[ThreadTime, ...]:
    """A run whose arm k had `counts[k]` threads -> the step at each of them.

    Each round of blocks (every arm once) is first divided by its own level, so that a stretch in which the machine was
    slow falls on all alike.
    """
    failed = {k for k, arm in enumerate(run.arms) if any(not_installed(run, spec) for spec in arm)}
    means_of = [{arm: float(block.step_s.mean()) for arm, block in round_.items()} for round_ in rounds(run)]
    table = [means for means in means_of if len(means) == len(counts)]
    if not table:
        return ()
    levels = [math.exp(fmean(math.log(mean) for mean in means.values())) for means in table]
    usual = median(levels)
    return tuple(
        ThreadTime(
            threads=count,
            step_s=median_interval([means[k] / level * usual for means, level in zip(table, levels, strict=True)]),
        )
        for k, count in enumerate(counts)
        if k not in failed
    )
