"""thread-oversubscription: more threads want to run than there are cores for them.

What it says: torch, or each worker, was told to use more threads than this process has cores, or several processes
compute side by side with more threads than there are cores for all of them; this part of each step is lost over it.
Why it is bad: the threads of one operator wait for each other at its end, so one that has to wait for a core holds up
all; a step can take many times as long as with fewer threads.
Example: OMP_NUM_THREADS=64 in a container with a quota of two cores, workers that call `torch.set_num_threads(16)`, or
two processes of `torch.multiprocessing` (Hogwild), each with torch's own two threads on two cores.
Risk: sums are made in another order, so the last bits differ.

Before:

    $ OMP_NUM_THREADS=64 python train.py

After:

    $ OMP_NUM_THREADS=2 python train.py
"""

from hotlap.record import Finding, Machine, Phase, Run, WhatIf
from hotlap.rules.step import finding
from hotlap.units import duration, percent

# Ours: on a noisy machine, two equal halves of such a window differ by less than this in nine cases out of ten.
MIN_SHARE = 0.10

# Of the pairs of blocks, so many must say the same.
MIN_AGREE = 0.75

# Ours: from half as many threads again as cores on; two processes of one thread more do not hurt.
MIN_CROWD = 1.5

# torch gives each worker one thread. From so many on average a worker computes with several, and ...
MIN_IN_WORKER = 1.5
# ... only where so many threads want each core does that hurt.
MIN_PER_CORE = 2.0

EXPLAINS = frozenset({"host-bound", "input-bound", "launch-bound", "memory-bound", "optimizer-bound"})

# Threads that wait for each other make operators longer. The script's own Python has one, whatever else runs.
_NOT_OF_OTHERS = frozenset({"host-bound", "input-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The same steps with as many threads as cores; else the threads that workers run at the same time."""
    return _of_processes(run) or _of_main(run) or _of_workers(run)


def explains(run: Run) -> frozenset[str]:
    """Of a training beside other programs, which come and go: not what its own Python takes."""
    cpu = run.cpu
    by_others = cpu is not None and (cpu.disturbed or cpu.neighbours) and not any(one.ours for one in cpu.neighbours)
    return EXPLAINS - _NOT_OF_OTHERS if by_others else EXPLAINS


def _other_threads(run: Run) -> WhatIf | None:
    """What another number of threads came to in this process; None where that was not tried."""
    return next((one for one in run.what_ifs if one.setting == "threads"), None)


def _of_processes(run: Run) -> Finding | None:
    """Several processes; what fewer threads bring was timed, or is estimated where all are of the same command: others
    come and go."""
    cpu, now = run.cpu, run.num_threads
    if cpu is None or not cpu.neighbours or now is None or not run.on_cpu:
        return None
    wanted = now + sum(one.threads for one in cpu.neighbours)
    fair = max(1, int(cpu.usable_cores / (1 + len(cpu.neighbours))))
    all_ours = all(one.ours for one in cpu.neighbours)
    # Without a process group each process asks at a time of its own, beside others that go on as they are.
    timed = None if all_ours and run.world_size == 1 else _other_threads(run)
    if now <= fair or wanted < MIN_CROWD * cpu.usable_cores or (timed is None and not all_ours):
        return None
    cost_s = (1 - cpu.usable_cores / wanted) * run.mean_step_s()
    gain = f"With {fair} each, a step would be about {run.with_share(cost_s)} shorter."
    if timed is not None:
        _, fair, cost_s = better_threads(run) or (now, now, 0.0)
        if fair >= now:
            return None
        # The steps that were timed: others may have used the machine less, or more, while they were recorded.
        saved = percent(run.share_of(cost_s))
        times = f"{duration(timed.other_s)} in place of {duration(timed.now_s)} ({saved} shorter)"
        gain = f"With {fair} each, a step took {times}, timed in turns."
    others = ", ".join(dict.fromkeys(one.name or f"process {one.pid}" for one in cpu.neighbours))
    return finding(
        run,
        cost_s,
        f"{1 + len(cpu.neighbours)} processes compute on {cpu.usable_cores:g} cores with {wanted:.3g} threads in all, "
        f"this one with {now} (beside it: {others}). {gain}",
        levers=() if any(one.ours for one in cpu.neighbours) else ("threads",),
        environment={"OMP_NUM_THREADS": str(fair)},
    )


def better_threads(run: Run) -> tuple[int, int, float] | None:
    """Threads now and in another number that was tried in this process, and the seconds of a step that these save; None
    where that is nothing to speak of, or the pairs disagree."""
    tried = _other_threads(run)
    if tried is None or tried.now_s <= 0 or tried.agree < MIN_AGREE:
        return None
    share = 1 - tried.other_s / tried.now_s
    return (int(tried.now or 0), int(tried.other or 0), share * run.mean_step_s()) if share >= MIN_SHARE else None


def _of_main(run: Run) -> Finding | None:
    now, other, cost_s = better_threads(run) or (0, 0, 0.0)
    # Fewer than there are cores are tried because of other processes.
    if now <= other or (run.cpu is not None and run.cpu.neighbours and other < run.cpu.usable_cores):
        return None
    told = f"torch computes with {now} threads: with {other}, a step would be {run.with_share(cost_s)} shorter."
    return finding(run, cost_s, told, levers=("threads",))


def _of_workers(run: Run) -> Finding | None:
    cpu = run.cpu
    if cpu is None or cpu.runnable is None or cpu.busiest_worker is None or cpu.usable_cores <= 0:
        return None
    crowd = cpu.runnable / cpu.usable_cores
    if cpu.busiest_worker < MIN_IN_WORKER or crowd < MIN_PER_CORE:
        return None
    # A thread waits for a core this part of the time that it wants one. The model's own time is counted in full: its
    # threads are among those that wait.
    cost_s = (1 - 1 / crowd) * run.mean_step_s()
    if run.share_of(run.mean_phase_s(Phase.INPUT) or 0.0) >= MIN_SHARE:
        cost_s = max(cost_s, run.mean_phase_s(Phase.INPUT) or 0.0)
    return finding(
        run,
        cost_s,
        f"{cpu.runnable:.1f} threads want to run on {cpu.usable_cores:g} cores, {cpu.busiest_worker:.1f} of them in "
        f"one worker: about {run.with_share(cost_s)} of each step is lost.",
        levers=("threads", "workers"),
    )
