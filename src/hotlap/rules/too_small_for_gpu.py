"""too-small-for-gpu: the model is so small that the CPU alone would train it faster.

What it says: by how much a step on the CPU should be shorter, from the operators' number and size.
Why it is bad: each call of a GPU has a floor of some microseconds, which tiny operators never repay; copies and waits
come on top.
Example: a network of two layers of a hundred neurons (a neural ODE, a small agent) on any GPU.
Risk: the CPU rounds differently and draws other random numbers; a larger model wants the GPU back.

Before:

    device = torch.device("cuda")

After:

    device = torch.device("cpu")
"""

from hotlap.record import Finding, Machine, Run
from hotlap.rules.change import readable
from hotlap.rules.step import CALL_PRICE, finding, on_one_core_s
from hotlap.units import duration, percent

# Ours: an estimate without a trial should promise a lot before it is said.
MIN_SHARE = 0.40

EXPLAINS = frozenset({"launch-bound", "sync-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Each operator's call, operations and bytes at a CPU's price, against the step as it is."""
    window = run.operators
    computed_s = on_one_core_s(run)
    if run.on_cpu or window is None or window.dispatch_s is None or window.flops is None or computed_s is None:
        return None
    on_cpu_s = CALL_PRICE * window.num_calls * window.dispatch_s + computed_s
    step_s = run.mean_step_s()
    cost_s = step_s - on_cpu_s
    if step_s <= 0 or cost_s < MIN_SHARE * step_s:
        return None
    # A script that asks whether there is a GPU trains without one.
    asks = any("is_available()" in script.text for script in readable(run))
    return finding(
        run,
        cost_s,
        f"A step of {window.flops / 1e6:.3g} million operations takes {duration(step_s)} on {run.device}; a CPU should "
        f"need about {duration(on_cpu_s)}, {percent(cost_s / step_s)} less.",
        environment={"CUDA_VISIBLE_DEVICES": ""} if asks else {},
    )
