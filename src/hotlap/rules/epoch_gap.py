"""epoch-gap: training stands still at the start of each epoch.

What it says: the steps in which a loader is started anew wait so much longer than the others; spread over the steps of
an epoch, that is this part of each.
Why it is bad: workers are ended and started again (each imports what the script imports), and the first batch is made
while nothing trains; with short epochs that can cost more than the epoch itself.
Example: `DataLoader(data, num_workers=4)` without `persistent_workers=True` over a data set of fifty batches.
Risk: workers that stay keep their memory, and do not see what the script changes in its data set between epochs.

Before:

    loader = DataLoader(data, batch_size=64, num_workers=4)

After:

    loader = DataLoader(data, batch_size=64, num_workers=4, persistent_workers=True)
"""

from statistics import mean

from hotlap.record import Finding, Machine, Run
from hotlap.rules.input_bound import MIN_SHARE
from hotlap.rules.step import finding
from hotlap.units import duration, percent

EXPLAINS = frozenset({"input-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Wait of the first steps of epochs beyond that of the others."""
    gaps_s = run.epoch_gaps_s()
    if not gaps_s:
        return None
    gap_s = mean(gaps_s)
    loader = run.main_loader()
    known = run.epoch_steps_of(loader) if loader is not None else None
    cost_s = gap_s / (known or len(run.step_s) / len(gaps_s))
    share = run.share_of(cost_s)
    if share < MIN_SHARE:
        return None
    who = ""
    if loader is not None and loader.num_workers and not loader.persistent_workers:
        which = "its worker is" if loader.num_workers == 1 else f"its {loader.num_workers} workers are"
        who = f" ({which} started anew)"
    return finding(
        run,
        cost_s,
        f"Each epoch begins with a wait of {duration(gap_s)}{who}: "
        f"{duration(min(cost_s, run.mean_step_s()))} a step, {percent(min(1.0, share))} of it.",
        levers=("workers",) if loader is None or loader.num_workers else ("cached-dataset", "workers"),
    )
