"""thread-oversubscription: more threads want to run than there are cores for them.

What it says: torch, or each worker, was told to use more threads than this process has cores; this part of each step is
lost over it.
Why it is bad: the threads of one operator wait for each other at its end, so one that has to wait for a core holds up
all; a step can take many times as long as with fewer threads.
Example: OMP_NUM_THREADS=64 in a container with a quota of two cores, or workers that call `torch.set_num_threads(16)`.
"""

from hotlap.record import Finding, Machine, Phase, Run, WhatIf
from hotlap.rules.step import finding, mean_step_s, share_of
from hotlap.units import duration, percent

# Ours: on a noisy machine, two equal halves of such a window differ by less than this in nine cases out of ten.
MIN_SHARE = 0.10

# Of the pairs of blocks, so many must say the same.
MIN_AGREE = 0.75

# torch gives each worker one thread. From so many on average a worker computes with several, and ...
MIN_IN_WORKER = 1.5
# ... only where so many threads want each core does that hurt.
MIN_PER_CORE = 2.0


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The same steps with as many threads as cores; else the threads that workers run at the same time."""
    asked = next((what_if for what_if in run.what_ifs if what_if.setting == "threads"), None)
    return _of_main(run, asked) or _of_workers(run)


def _of_main(run: Run, asked: WhatIf | None) -> Finding | None:
    if asked is None or int(asked.now or 0) <= int(asked.other or 0) or asked.agree < MIN_AGREE or asked.now_s <= 0:
        return None
    share = 1 - asked.other_s / asked.now_s
    if share < MIN_SHARE:
        return None
    cost_s = share * mean_step_s(run)
    return finding(
        run,
        "thread-oversubscription",
        cost_s,
        f"torch computes with {asked.now} threads where {asked.other} cores may be used: with {asked.other} each step "
        f"would be {duration(cost_s)} ({percent(share)}) shorter.",
        levers=("threads",),
    )


def _of_workers(run: Run) -> Finding | None:
    cpu = run.cpu
    if cpu is None or cpu.runnable is None or cpu.busiest_worker is None or cpu.usable_cores <= 0:
        return None
    crowd = cpu.runnable / cpu.usable_cores
    if cpu.busiest_worker < MIN_IN_WORKER or crowd < MIN_PER_CORE:
        return None
    # A thread waits for a core this part of the time that it wants one. The model's own time is counted in full: its
    # threads are among those that wait.
    cost_s = (1 - 1 / crowd) * mean_step_s(run)
    if share_of(run, run.mean_phase_s(Phase.INPUT) or 0.0) >= MIN_SHARE:
        cost_s = max(cost_s, run.mean_phase_s(Phase.INPUT) or 0.0)
    return finding(
        run,
        "thread-oversubscription",
        cost_s,
        f"{cpu.runnable:.1f} threads want to run on {cpu.usable_cores:g} cores, {cpu.busiest_worker:.1f} of them in "
        f"one worker: up to {duration(cost_s)} ({percent(share_of(run, cost_s))}) of each step is lost.",
        levers=("threads", "workers"),
    )
