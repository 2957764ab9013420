"""recomputation: the backward pass computes a part of the forward pass once more.

What it says: this part of each step goes into activations that were computed before, and thrown away to save memory.
Why it costs: checkpointing trades time for memory; where memory is left over, the trade is a loss.
Example: `torch.utils.checkpoint` around every block, on a device whose memory is half empty.
Risk: memory: what is not recomputed is kept, and the largest batch may no longer fit.

Before:

    for block in self.blocks:
        x = checkpoint(block, x, use_reentrant=False)

After:

    for block in self.blocks:
        x = block(x)
"""

from hotlap.record import Finding, Machine, Run
from hotlap.rules.step import finding

# A forward pass is a third of a step, so all of it once more is a quarter of what then is one; below a fifth of that
# it is one block, which somebody chose.
MIN_SHARE = 0.05


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """By what a trace shows."""
    cost_s = _cost_s(run)
    if cost_s is None or run.share_of(cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        cost_s,
        f"The backward pass spends {run.with_share(cost_s, ' of each step')} on "
        "computing activations of the forward pass again (activation checkpointing), which saves memory: where that "
        "is left over, checkpoint fewer blocks.",
    )


def _cost_s(run: Run) -> float | None:
    """Kernels take as long under a profiler; operators on the CPU take longer, as the whole step does."""
    seen = run.operators
    if seen is None or seen.recomputed_s is None or not run.on_cpu or not seen.wall_s:
        return None if seen is None else seen.recomputed_s
    return seen.recomputed_s * min(1.0, run.mean_step_s() / seen.wall_s)
