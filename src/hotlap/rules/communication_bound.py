"""communication-bound: the processes that train together wait for each other's data.

What it says: this part of each step passes while gradients are on their way, waiting for the slowest process left out.
Why it is bad: the network's time should be hidden behind the backward pass; what shows is lost on every process.
Example: a large embedding table trained by several machines over a slow network.
Risk: larger buckets keep the numbers; gradients that are compressed or late do not.

Before:

    model = DistributedDataParallel(model)

After:

    model = DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)
"""

from statistics import median

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.step import finding
from hotlap.units import duration

# TraceML notes exposed communication from 6% of the step on and calls it critical from 10% on.
MIN_SHARE = 0.10

# What was seen of a model that DistributedDataParallel wraps -> what can be tried for it.
_LEVERS = (
    ("sends_buffers", "buffer-broadcast"),
    ("finds_unused", "unused-parameters"),
    ("data_parallel", "no-sync"),
    ("data_parallel", "gradient-compression"),
)


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Transfer among the ranks where they were merged; else what this process saw."""
    moved = [rank.transfer_s for rank in run.ranks if rank.transfer_s is not None]
    exposed_s = run.operators.communication_exposed_s if run.operators is not None else None
    cost_s = median(moved) if moved else exposed_s
    if cost_s is None:
        cost_s = run.mean_phase_s(Phase.COMMUNICATION)
    if cost_s is None or run.share_of(cost_s) < MIN_SHARE:
        return None
    wrapped = [site.detail for site in run.call_sites if site.detail.get("data_parallel")]
    among = f"among {run.world_size} processes" if run.world_size > 1 else "between processes"
    return finding(
        run,
        cost_s,
        f"Each step spends {run.with_share(cost_s, ' of it')} on exchanging data {among}{_waits(run)}.",
        levers=tuple(lever for fact, lever in _LEVERS if any(one.get(fact) for one in wrapped)),
    )


def _waits(run: Run) -> str:
    """What else the phase holds. Of one trace nobody knows when the others came."""
    wait_s = next((rank.wait_s for rank in run.ranks if rank.rank == run.rank), None)
    if wait_s:
        return f", beside {duration(wait_s)} of waiting for the slowest"
    alone = not run.ranks and run.from_trace
    return "; it holds waiting for the slowest of them, which the traces of all ranks would tell" if alone else ""
