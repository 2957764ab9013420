"""communication-bound: the processes that train together wait for each other's data.

What it says: this part of each step passes while gradients are on their way, waiting for the slowest process left out.
Why it is bad: the network's time should be hidden behind the backward pass; what shows is lost on every process.
Example: a large embedding table trained by several machines over a slow network.
Risk: larger buckets keep the numbers; gradients that are compressed or late do not. Buffers that are no longer sent may
drift apart; a parameter that a step leaves out after all ends the training with an error.
With frameworks: `ddp_broadcast_buffers` and `ddp_find_unused_parameters` of Hugging Face's `TrainingArguments` (whose
Trainer looks for unused parameters by default), `strategy=DDPStrategy(...)` of Lightning.

Before:

    model = DistributedDataParallel(model, find_unused_parameters=True)
    for number, batch in enumerate(loader):
        model(batch).mean().backward()

After:

    model = DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)
    # Over a slow link; other numbers: torch.distributed.algorithms.ddp_comm_hooks.default_hooks
    model.register_comm_hook(model.process_group, fp16_compress_hook)
    for number, batch in enumerate(loader):
        with nullcontext() if (number + 1) % accumulate == 0 else model.no_sync():
            model(batch).mean().backward()
"""

from statistics import median

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.change import readable
from hotlap.rules.step import finding, share_of, spent
from hotlap.units import duration

# TraceML notes exposed communication from 6% of the step on and calls it critical from 10% on.
MIN_SHARE = 0.10

# What says in which passes gradients are exchanged.
_CHOSEN = frozenset({"no_sync", "require_backward_grad_sync", "accumulate"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Transfer among the ranks where they were merged; else what this process saw."""
    moved = [rank.transfer_s for rank in run.ranks if rank.transfer_s is not None]
    exposed_s = run.operators.communication_exposed_s if run.operators is not None else None
    cost_s = median(moved) if moved else exposed_s
    if cost_s is None:
        cost_s = run.mean_phase_s(Phase.COMMUNICATION)
    if cost_s is None or share_of(run, cost_s) < MIN_SHARE:
        return None
    among = f"among {run.world_size} processes" if run.world_size > 1 else "between processes"
    return finding(
        run,
        cost_s,
        f"Each step spends {spent(run, cost_s, ' of it')} on exchanging data {among}{_waits(run)}."
        f"{_several(run)}{_chosen(run)}",
    )


def _waits(run: Run) -> str:
    """What else the phase holds. Of one trace nobody knows when the others came."""
    wait_s = next((rank.wait_s for rank in run.ranks if rank.rank == run.rank), None)
    if wait_s:
        return f", beside {duration(wait_s)} of waiting for the slowest"
    alone = not run.ranks and run.from_trace
    return "; it holds waiting for the slowest of them, which the traces of all ranks would tell" if alone else ""


def _chosen(run: Run) -> str:
    """What is exchanged besides gradients, by arguments of DistributedDataParallel."""
    models = [site.detail for site in run.call_sites if site.detail.get("data_parallel")]
    said = ""
    keyword = next((one["sends_buffers"] for one in models if one.get("sends_buffers")), None)
    if keyword and not any(one.get("batch_statistics") for one in models):  # which would drift apart
        said += (
            f" Buffers are sent in front of each forward pass; where no step changes them, `{keyword}=False` does not."
        )
    if any(one.get("finds_unused") for one in models):
        said += " Each step looks for unused parameters; where there are none, `find_unused_parameters=False` does not."
    return said


def _several(run: Run) -> str:
    """Of a script that takes several batches a step, goes backward by itself, and does not choose when to exchange."""
    loader, samples = run.main_loader(), [count for count in run.num_samples if count]
    if loader is None or not loader.batch_size or not samples:
        return ""
    num_batches = round(median(samples) / loader.batch_size)
    if num_batches < 2 or not any(site.detail.get("data_parallel") for site in run.call_sites):
        return ""
    files = readable(run)
    if any(script.spelled(*_CHOSEN) for script in files) or not any(script.spelled("backward") for script in files):
        return ""
    return (
        f" A step takes {num_batches} batches: where each has a backward pass of its own, `with model.no_sync():` "
        "around all but the last exchanges gradients once."
    )
