"""straggler: all processes wait for the slowest.

What it says: one process computes so much longer in each step than the others, which wait for it.
Why it is bad: in data-parallel training the slowest process sets the pace of all; the others' hardware idles. It hides:
every process shows the same step time, because waiting happens inside of the exchange.
Example: one process that shares its GPU or its cores with another job, or gets the longest sequences.
Risk: none where a slow process gets more room; samples in the order of their length are no longer drawn at random.

Before:

    sampler = DistributedSampler(texts)
    loader = DataLoader(texts, batch_size=32, sampler=sampler)

After:

    # Neighbours are of like length, so all processes get the same work at a time.
    by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    mine = DistributedSampler(by_length, shuffle=False)
    loader = DataLoader(texts, batch_size=32, sampler=[by_length[i] for i in mine])
"""

from statistics import median

from hotlap.record import Finding, Machine, Run
from hotlap.rules.step import finding, share_of
from hotlap.units import duration, percent

# TraceML's limits are 10% (a note) and 20% (critical) of the step.
MIN_SHARE = 0.10

# With one process there is nobody to compare with.
_FEWEST = 2

EXPLAINS = frozenset({"communication-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Compute of the slowest rank beyond the median of the others, communication left out on all."""
    if len(run.ranks) < _FEWEST:
        return None
    slowest = max(run.ranks, key=lambda rank: rank.compute_s)
    others_s = median(rank.compute_s for rank in run.ranks if rank is not slowest)
    cost_s = slowest.compute_s - others_s
    if share_of(run, cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        "straggler",
        cost_s,
        f"Rank {slowest.rank} on {slowest.host} takes {duration(slowest.compute_s)} a step without communication, "
        f"the others {duration(others_s)}: all wait {duration(cost_s)} "
        f"({percent(min(1.0, share_of(run, cost_s)))} of each step).",
    )
