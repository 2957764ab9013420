"""page-faults: the kernel hands out the same memory anew in each step.

What it says: the page faults of a step, and the time that the kernel takes for so many pages here.
Why it is bad: as it comes, glibc's malloc gives the memory of freed tensors back to the kernel, large blocks at once
and others once enough lies at the heap's end. The next step's tensors get it back page by page, each filled with zeros
and in no cache.
Example: a conv net whose activations of some megabytes are made and freed in each step.
Risk: what was used once stays with the process, so its memory does not shrink again.

Before:

    $ python train.py

After:

    $ export GLIBC_TUNABLES=glibc.malloc.mmap_threshold=33554432
    $ export GLIBC_TUNABLES=$GLIBC_TUNABLES:glibc.malloc.trim_threshold=68719476736
    $ python train.py
"""

from hotlap.record import Finding, Machine, Run
from hotlap.rules.step import finding

# Ours: of a step. What is below is what loaders and logs take as well.
MIN_SHARE = 0.05

EXPLAINS = frozenset({"memory-bound", "optimizer-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Where they take much of a step on the CPU."""
    share = run.page_faults_share
    if run.cpu is None or share < MIN_SHARE or not run.on_cpu or not run.step_s:
        return None
    cost_s = share * run.mean_step_s()
    return finding(
        run,
        cost_s,
        f"Each step has {run.cpu.page_faults * run.mean_step_s():,.0f} page faults, which take about "
        f"{run.with_share(cost_s, ' of it')}: the memory of what it frees goes back to the kernel, and is handed out "
        "anew.",
        levers=("malloc",),
    )
