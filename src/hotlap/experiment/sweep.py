"""The user's step at several numbers of threads: measured in one process whose arms take turns, then explained."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from hotlap.experiment.design import Runs
from hotlap.experiment.executor import not_installed
from hotlap.experiment.table import rounds
from hotlap.machine import cores as processors
from hotlap.machine import threads
from hotlap.machine.figures import median_interval
from hotlap.record import Cores, LeverSpec, Plan, Run, Status, Sweep, ThreadTime

# Blocks timed for each number of threads. Each gives one number; with 8 their median is bracketed with 99%.
_BLOCKS = 8

# Part of the processors that others wanted beforehand; from here on they meet our threads.
_BUSY = 0.25


def thread_sweep(
    launcher: Runs,
    plan: Plan,
    counts: Sequence[int] | None = None,
    *,
    cores: Cores | None = None,
    default_threads: int | None = None,
    limit_s: float = 120.0,
) -> Sweep:
    """The same step at each number of threads, switched between blocks of steps within one process.

    Arguments:
        plan: how the script is started; its arms are replaced, and its steps cut to what a sweep needs.
        counts: numbers of threads (default: those worth timing on `cores`).
        cores: of this machine, if somebody looked already.
        default_threads: what the script runs with by itself (`Run.num_threads` of a run as written).
        limit_s: after so long it ends with what it has.
    """
    cores = cores or processors.look()
    wanted = tuple(dict.fromkeys(counts or threads.counts(cores)))
    arms: tuple[tuple[LeverSpec, ...], ...] = tuple(({"name": "threads", "count": count},) for count in wanted)
    swept = replace(
        plan,
        arms=arms,
        steps=min(plan.steps, _BLOCKS * plan.block),
        turn=None,
        whole_epoch=False,
        evidence=False,
    )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    (run,) = launcher([swept], limit_s=limit_s)
    found = threads.explain(times(run, wanted), cores, default_threads=default_threads)
    return replace(found, notes=(*found.notes, *_notes(run), *_others(load, cores)))


def times(run: Run, counts: Sequence[int]) -> tuple[ThreadTime, ...]:
    """A run whose arm k had `counts[k]` threads -> the step at each of them.

    Each round of blocks (every arm once) is first divided by its own level, so that a stretch in which the machine was
    slow falls on all alike.
    """
    if run.device != "cpu":
        return ()
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


def _notes(run: Run) -> tuple[str, ...]:
    if run.device != "cpu":
        return ("The model runs on a GPU; the threads of CPU operators do not decide its speed.",)
    if run.status in (Status.CRASHED, Status.KILLED, Status.HUNG, Status.SILENT):
        return (f"The script could not be timed at several numbers of threads ({run.status}): {run.error}",)
    return run.not_installed


def _others(load: float, cores: Cores) -> tuple[str, ...]:
    if load < _BUSY * cores.allowed or load < 0.5:
        return ()
    return (
        f"{load:.1f} processes wanted a processor before the sweep began, of {cores.allowed} there are: on a quiet "
        "machine more threads may do better than here.",
    )
