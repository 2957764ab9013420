"""thread-starvation: cores that this process may use stand idle, because torch was given too few threads.

What it says: with as many threads as cores each step would be that much shorter (it was tried, in turns with the
script's own setting); or the control group's quota held the process still for that part of the time.
Why it is bad: torchrun sets OMP_NUM_THREADS=1 for each of its processes, containers cut the number of cores without a
word, and a line left over from an experiment does the same: the cores are paid for and do nothing.
Example: `torch.set_num_threads(1)` at the head of a script that trains a large network on eight cores.
Risk: sums are made in another order, so the last bits differ.

Before:

    torch.set_num_threads(1)

After:

    torch.set_num_threads(len(os.sched_getaffinity(0)))
"""

from hotlap.record import Finding, Machine, Run
from hotlap.rules.step import finding
from hotlap.rules.thread_oversubscription import MIN_SHARE, better_threads
from hotlap.units import plural

EXPLAINS = frozenset({"host-bound", "launch-bound", "memory-bound", "optimizer-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Too few threads, or too little of the processor."""
    return _too_few(run) or _throttled(run)


def _too_few(run: Run) -> Finding | None:
    now, other, cost_s = better_threads(run) or (0, 0, 0.0)
    if now >= other:
        return None
    variable = "" if run.switches is None else run.switches.environment.get("OMP_NUM_THREADS", "")
    why = f" (OMP_NUM_THREADS={variable})" if variable else ""
    return finding(
        run,
        cost_s,
        f"torch computes with {plural(now, 'thread')}{why} where {other} cores may be used: with {other}, a step "
        f"would be {run.with_share(cost_s)} shorter.",
        levers=("threads",),
    )


def _throttled(run: Run) -> Finding | None:
    cpu = run.cpu
    if cpu is None or cpu.throttled is None or cpu.throttled < MIN_SHARE:
        return None
    cost_s = cpu.throttled * run.mean_step_s()
    return finding(
        run,
        cost_s,
        f"The control group's quota of {cpu.usable_cores:g} cores holds the process still for "
        f"{run.with_share(cost_s)} of each step.",
        levers=("threads",),
    )
