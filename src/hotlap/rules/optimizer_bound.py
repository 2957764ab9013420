"""optimizer-bound: updating the parameters takes a large part of the step.

What it says: this part of each step passes in `optimizer.step()` and `zero_grad()`.
Why it is bad: the update reads and writes each parameter a few times, which should be little beside forward and
backward; a large share means that it is made of many small operators, or that the batch is small for the model.
Example: default Adam over a network with many small parameter tensors.
Risk: the formula stays; fused kernels round differently.

Before:

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

After:

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
"""

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.step import at_lines, chosen, finding, phase_s

# An update of N parameters moves about 7 N numbers, forward and backward of a batch of 32 do 6 N x 32 operations; with
# 10 or more operations a byte moved that makes less than a tenth. But default Adam makes about ten operators a tensor,
# which costs small sound networks on a CPU a sixth to a fourth of a step: only above that it is worth a word.
MIN_SHARE = 0.25


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Share of the step spent in optimizers; of a GPU's trace nothing else is known of them."""
    cost_s = phase_s(run, Phase.OPTIMIZER)
    if cost_s is None or run.share_of(cost_s) < MIN_SHARE or (run.on_cpu and not run.optimizers):
        return None
    elements = sum(optimizer.num_elements for optimizer in run.optimizers)
    tensors = sum(optimizer.num_parameters for optimizer in run.optimizers)
    size = f", for {elements:,} parameters in {tensors} tensors" if run.optimizers else ""
    may_fuse = not run.optimizers or any(one.has_fused and not one.fused for one in run.optimizers)
    return finding(
        run,
        cost_s,
        f"Each step spends {run.with_share(cost_s, ' of it')} in the optimizer{size}{_where(run, cost_s)}.",
        levers=chosen({"fused-optimizer": may_fuse, "threads": run.on_cpu}),
    )


def _where(run: Run, cost_s: float) -> str:
    """Of several optimizers the line whose step takes longest, and of one that the script wrote itself."""
    several = len(run.optimizers) > 1
    lines = [line for line in run.hot_lines if line.phase is Phase.OPTIMIZER and (several or line.inside)]
    return at_lines(lines, cost_s)
