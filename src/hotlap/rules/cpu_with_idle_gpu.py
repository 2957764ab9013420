"""cpu-with-idle-gpu: training runs on the CPU of a machine that has a GPU.

What it says: the model's share of each step that a GPU could take over; each call would still cost its launch.
Why it is bad: a model of more than the smallest size trains many times as fast there.
Example: a script without `.to("cuda")`, or a CPU build of torch on a machine with a graphics card.
Risk: the GPU rounds differently and draws other random numbers.

Before:

    model = Net()
    for x, y in loader:
        loss = criterion(model(x), y)

After:

    model = Net().to("cuda")
    for x, y in loader:
        x, y = x.to("cuda"), y.to("cuda")
        loss = criterion(model(x), y)
"""

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import behind_imports
from hotlap.rules.step import finding

# Ours: with less to gain the copies of batches and the script's change are not worth it.
MIN_SHARE = 0.50

# A kernel's launch and its place in the queue: 5-20 us (HTA's documentation); 12 us measured on an old card (a K40c).
_LAUNCH_S = 12e-6

_MODEL = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The model's time on the CPU, less what launching each of its operators would take."""
    if machine is None or not machine.gpus or not run.on_cpu or not run.optimizers:
        return None
    spent_s = sum(run.mean_phase_s(phase) or 0.0 for phase in _MODEL)
    calls = _calls(run)
    if calls is None:
        return None
    cost_s = spent_s - calls * _LAUNCH_S
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        cost_s,
        f"The model runs on the CPU while {machine.gpus[0]} idles: "
        f"up to {run.with_share(cost_s)} of each step could go.",
        change=behind_imports(run, 'torch.set_default_device("cuda")  # data of a loader: .to("cuda")'),
    )


def _calls(run: Run) -> float | None:
    if run.calls is not None:
        return sum(run.calls_in(phase).calls for phase in _MODEL)
    return None if run.operators is None else run.operators.num_calls
