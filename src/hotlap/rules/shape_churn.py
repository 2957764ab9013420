"""shape-churn: nearly every batch has a shape that was not seen before.

What it says: the model is given so many different shapes that nothing which is made for one of them is used again.
Why it is bad: compiled code is compiled again, convolution kernels are prepared or searched for again, and the
allocator finds no block of the right size. Padding to a few sizes (or sorting by length) makes most of that vanish.
Example: batches padded to their own longest sentence under `torch.compile(dynamic=False)` or `cudnn.benchmark`.
Risk: padded positions must be masked, in the loss as well.

Before:

    def collate(texts):
        return pad_sequence(texts, batch_first=True)

After:

    def collate(texts):
        longest = max(map(len, texts))
        padded = pad_sequence(texts, batch_first=True)
        return F.pad(padded, (0, -longest % 64))  # a multiple of 64; mask what is padding
"""

import math
from dataclasses import replace
from statistics import median, stdev

from hotlap.record import Finding, Machine, Phase, Run, ShapeFacts
from hotlap.rules.step import finding
from hotlap.units import duration, percent

# Ours: buckets (a handful of lengths) and a shorter last batch are sound; dozens are not. oneDNN keeps 1024 prepared
# primitives, which a net of twenty layers fills with some dozens of shapes.
MIN_SHAPES = 16
MIN_RATIO = 0.10

# Known shapes without which there is no standard error.
_FEWEST = 2

# Steps that must have been looked at: at the very start every shape is new.
MIN_STEPS = 30

EXPLAINS = frozenset({"host-bound", "launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Different shapes among the steps; what new ones cost beyond known ones, where both were seen."""
    shapes = run.shapes
    if shapes is None or shapes.num_steps < MIN_STEPS or not run.step_s:
        return None
    if shapes.num_shapes < max(MIN_SHAPES, MIN_RATIO * shapes.num_steps):
        return None
    cost_s = _new_beyond_known(run, shapes)
    tries_kernels = run.switches is not None and run.switches.cudnn_benchmark and run.device != "cpu"
    costs = "too few came again to tell what new ones cost"
    if cost_s is not None:
        costs = f"new ones cost {duration(cost_s)} a step ({percent(min(1.0, run.share_of(cost_s)))} of it)"
    found = finding(
        run,
        cost_s or 0.0,
        f"The model met {shapes.num_shapes:,} different input shapes in {shapes.num_steps:,} steps; {costs}.",
        levers=("cudnn-benchmark",) if tries_kernels else (),
    )
    # What is searched for or compiled for each shape costs much; eager operators prepare little.
    return replace(found, at_any_cost=cost_s is None and (tries_kernels or run.compiled))


def _new_beyond_known(run: Run, shapes: ShapeFacts) -> float | None:
    """Each step with a known shape beside those with new ones of its size, because rare shapes are the long ones; less
    the standard error. Waiting for other processes is left out. None where too few were known."""
    from numpy import interp  # only where shapes change

    new, waits_s = set(shapes.new_steps), run.phase_s.get(Phase.COMMUNICATION) or (0.0,) * len(run.step_s)
    of_new: dict[int, list[float]] = {}
    of_known: list[tuple[int, float]] = []
    for index, step_s, wait_s in zip(run.step_index, run.step_s, waits_s, strict=False):
        # Older records have no sizes; newer ones not those of all steps.
        size, own_s = shapes.elements.get(index, None if shapes.elements else 0), step_s - wait_s
        if size is not None and index in new:
            of_new.setdefault(size, []).append(own_s)
        elif size is not None:
            of_known.append((size, own_s))
    sizes, typical_s = sorted(of_new), [median(of_new[size]) for size in sorted(of_new)]
    within = [(size, own_s) for size, own_s in of_known if sizes and sizes[0] <= size <= sizes[-1]]
    beyond_s = [float(interp(size, sizes, typical_s)) - own_s for size, own_s in within]
    if len(beyond_s) < _FEWEST:
        return None
    sure_s = median(beyond_s) - stdev(beyond_s) / math.sqrt(len(beyond_s))
    num_new = sum(map(len, of_new.values()))
    return max(0.0, sure_s) * num_new / (num_new + len(of_known))
