"""communication-bound: the processes that train together wait for each other's data.

What it says: this part of each step passes while gradients are on their way, waiting for the slowest process left out.
Why it is bad: the network's time should be hidden behind the backward pass; what shows is lost on every process.
Before an argument that is shown goes in: a step that leaves out a parameter ends in an error where nothing looks for it
(`static_graph=True` takes those of the first step); buffers that one process alone changes no longer reach the others;
`reshard_after_forward=False` keeps the whole model in memory. Over a slow link half of the bytes travel with
`model.register_comm_hook(None, default_hooks.fp16_compress_hook)`.
Example: a large embedding table trained by several machines over a slow network.
Risk: larger buckets keep the numbers; gradients that are compressed or late do not.

Before:

    model = DistributedDataParallel(model, find_unused_parameters=True)

After:

    model = DistributedDataParallel(model, gradient_as_bucket_view=True)
"""

import ast
from collections.abc import Iterator, Mapping
from statistics import median

from hotlap.record import Finding, Machine, Phase, Run, Scalar
from hotlap.rules.advice import calls, replaced, wrapped_models
from hotlap.rules.step import Change, file_name, finding, share_of, spent
from hotlap.source import Script
from hotlap.units import duration, percent, plural, size

# TraceML notes exposed communication from 6% of the step on and calls it critical from 10% on.
MIN_SHARE = 0.10

_FULLY_SHARD = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")


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
        f"Each step spends {spent(run, cost_s, ' of it')} on exchanging "
        f"{_collectives(run) or 'gradients'} {among}{_buckets(run)}{_besides(run)}{_waits(run)}.",
        levers=("bucket-size",) if any(one.get("gradient_mb") for one in _wrapped_with(run)) else (),
        change=_change(run),
    )


def _wrapped_with(run: Run) -> list[Mapping[str, Scalar]]:
    """How DistributedDataParallel was told to exchange, for each model that it wraps."""
    return [site.detail for site in run.call_sites if site.detail.get("data_parallel")]


def _besides(run: Run) -> str:
    """What each step does that may be for nothing."""
    models = _wrapped_with(run)
    sends = any(one.get("sends_buffers") for one in models)
    said = "; the model's buffers are sent in front of each forward pass" if sends else ""
    searches = any(one.get("finds_unused") for one in models)
    return said + ("; parameters without a gradient are looked for (find_unused_parameters)" if searches else "")


def _change(run: Run) -> Change | None:
    """The first place where a model is wrapped, or a part of it sharded, with what may be told besides."""
    models = _wrapped_with(run)
    words: dict[str, bool] = {}
    for one in models:
        if one.get("finds_unused"):
            words["find_unused_parameters"] = False
        if one.get("sends_buffers") and not one.get("batch_statistics"):
            words[str(one["sends_buffers"])] = False
        if not one.get("gradient_views"):
            words["gradient_as_bucket_view"] = True
    places = [(made, words) for made in wrapped_models(run)]
    places += [(made, {"reshard_after_forward": False}) for made in calls(run, *_FULLY_SHARD)]
    return next((change for made, wanted in places for change in _told(*made, wanted)), None)


def _told(script: Script, call: ast.Call, words: Mapping[str, bool]) -> Iterator[Change]:
    """The call with these words; nothing where it says all of them, in whatever way."""
    # What is off by default is taken out where it was turned on; all else that the script says stays.
    given = [word for word in call.keywords if not (word.arg == "find_unused_parameters" and word.arg in words)]
    said = {word.arg for word in given}
    more = [name for name in words if name not in said and name != "find_unused_parameters"]
    if None not in said and (more or len(given) < len(call.keywords)):
        new = [ast.keyword(name, ast.Constant(words[name])) for name in more]
        yield replaced(script, call, ast.unparse(ast.Call(call.func, call.args, [*given, *new])))


def _waits(run: Run) -> str:
    """Of one trace nobody knows when the others came."""
    alone = not run.ranks and run.from_trace
    return "; it holds waiting for the slowest of them, which the traces of all ranks would tell" if alone else ""


def _collectives(run: Run) -> str:
    """What nothing hides, by kind, where a trace tells."""
    seen = run.operators.collectives if run.operators is not None else ()
    exposed = sorted(((one.device_s - one.hidden_s, one.name) for one in seen), reverse=True)[:3]
    return f"data ({', '.join(f'{name} {duration(seconds)}' for seconds, name in exposed)})" if exposed else ""


def _buckets(run: Run) -> str:
    seen = run.exchange
    if seen is None or seen.link_s <= 0:
        return ""
    return (
        f"; {size(round(seen.num_bytes))} in {plural(round(seen.buckets), 'bucket')} are on their way for "
        f"{duration(seen.link_s)} "
        f"({size(round(seen.num_bytes / seen.link_s))} a second), {percent(seen.hidden)} of that "
        f"hidden behind the backward pass{_wrapped(run)}"
    )


def _wrapped(run: Run) -> str:
    """Where the model is wrapped: there its buckets are chosen."""
    for script, call in wrapped_models(run):
        return f" (the model is wrapped in line {call.lineno} of {file_name(script.path)})"
    return ""
