"""preallocation: batches of changing size break up the memory of the GPU's allocator.

What it says: how many sizes the model was given, and the command under which the allocator grows its blocks instead.
Why it is bad: a batch that is longer than all before finds no block that fits, so the allocator gives what it has back
to the driver and waits for the device. Two remedies: blocks that grow (PyTorch's notes on CUDA, "Optimizing memory
usage"), or one forward and backward pass on the largest batch before training (its tuning guide, "Preallocate memory in
case of variable input length").
Example: sentences padded to the longest of their batch, on a GPU that is nearly full.
Risk: none for the numbers; blocks that grow are a newer part of the allocator.

Before:

    $ python train.py

After:

    $ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py
"""

from hotlap.record import Finding, Machine, Run
from hotlap.rules.advice import advice

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"

# The full batch, and the last one of an epoch.
MIN_SHAPES = 3

# The most that was reported for batches of changing length is a fraction of the step.
_PART = 0.25


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Sizes that change, on a GPU whose allocator was left as it is."""
    if run.on_cpu or run.device == "mps" or run.shapes is None or run.shapes.num_shapes < MIN_SHAPES:
        return None
    if run.switches is not None and _VARIABLE in run.switches.environment:
        return None
    evidence = f"The model was given {run.shapes.num_shapes} sizes of batches in {run.shapes.num_steps} steps"
    grows = {_VARIABLE: "expandable_segments:True"}
    return advice(run, _PART * run.mean_step_s(), evidence, environment=grows)
