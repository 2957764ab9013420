"""unequal-work: processes that train together are given unequal amounts to compute.

What it says: in each step the process with most elements in its batch computes so much longer than the mean, and the
others wait for it.
Why it is bad: all go on when the last one is done; the others' hardware idles, though none of it is slow.
Example: sequences of random length, sorted shards, a smaller batch on the process that also logs.
Risk: samples in the order of their length are no longer drawn at random.

Before:

    sampler = DistributedSampler(texts)
    loader = DataLoader(texts, batch_size=32, sampler=sampler)

After:

    # Neighbours are of like length, so all processes get the same work at a time.
    by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    mine = DistributedSampler(by_length, shuffle=False)
    loader = DataLoader(texts, batch_size=32, sampler=[by_length[i] for i in mine])
"""

from hotlap.record import Finding, Machine, Run, UnequalWork
from hotlap.rules.advice import calls
from hotlap.rules.step import file_name, finding, share_of
from hotlap.units import duration, percent

# As for a straggler, which it looks like.
MIN_SHARE = 0.10

# Below it the means of the ranks are the same for people, and another one has most in each step.
_SAME = 1.1

EXPLAINS = frozenset({"communication-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """By the elements that the model of each process is given, and how its compute grows with them."""
    seen = run.unequal_work
    if seen is None or share_of(run, seen.cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        "unequal-work",
        seen.cost_s,
        f"{_whose(seen)} in a step has {seen.most:.2f} times the mean of the {len(seen.work)} processes to compute: "
        f"all wait {duration(seen.cost_s)} ({percent(min(1.0, share_of(run, seen.cost_s)))} of each step) for it"
        f"{_fed(run)}.",
    )


def _whose(seen: UnequalWork) -> str:
    most = max(seen.work, key=lambda rank: seen.work[rank])
    mean = sum(seen.work.values()) / len(seen.work)
    if seen.work[most] < _SAME * mean:
        return "The process with most elements (another one from step to step)"
    return f"The process with most elements (mostly rank {most})"


def _fed(run: Run) -> str:
    """Where batches are made."""
    for script, call in calls(run, "torch.utils.data.DataLoader"):
        return f"; batches are made in line {call.lineno} of {file_name(script.path)}"
    return ""
