"""recomputation: the backward pass computes a part of the forward pass once more.

What it says: this part of each step goes into activations that were computed before, and thrown away to save memory.
Why it costs: checkpointing trades time for memory; where memory is left over, the trade is a loss.
Hugging Face's models have `gradient_checkpointing_disable()` for it, timm's `set_grad_checkpointing(False)`.
Example: `torch.utils.checkpoint` around every block, on a device whose memory is half empty.
Risk: memory: what is not recomputed is kept, and the largest batch may no longer fit.

Before:

    for block in self.blocks:
        x = checkpoint(block, x, use_reentrant=False)

After:

    for block in self.blocks:
        x = block(x)
"""

import ast

from hotlap.record import Finding, Machine, Run
from hotlap.rules.advice import calls, replaced
from hotlap.rules.step import Change, finding, mean_step_s, on_cpu, share_of, spent

# A forward pass is a third of a step, so all of it once more is a quarter of what then is one; below a fifth of that
# it is one block, which somebody chose.
MIN_SHARE = 0.05

# Arguments of `checkpoint` itself; all others are the function's.
_OWN = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "context_fn", "early_stop")


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """By what a trace shows."""
    cost_s = _cost_s(run)
    if cost_s is None or share_of(run, cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        cost_s,
        f"The backward pass spends {spent(run, cost_s, ' of each step')} on "
        "computing activations of the forward pass again (activation checkpointing), which saves memory: where that "
        "is left over, checkpoint fewer blocks.",
        change=_change(run),
    )


def _change(run: Run) -> Change | None:
    """The first `checkpoint(block, x, use_reentrant=False)` of the script becomes `block(x)`."""
    for script, call in calls(run, "torch.utils.checkpoint.checkpoint"):
        hidden = isinstance(next(iter(call.args), None), ast.Starred) or any(word.arg is None for word in call.keywords)
        if call.args and not hidden:
            given = [word for word in call.keywords if word.arg not in _OWN]
            return replaced(script, call, ast.unparse(ast.Call(call.args[0], call.args[1:], given)))
    return None


def _cost_s(run: Run) -> float | None:
    """Kernels take as long under a profiler; operators on the CPU take longer, as the whole step does."""
    seen = run.operators
    if seen is None or seen.recomputed_s is None or not on_cpu(run) or not seen.wall_s:
        return None if seen is None else seen.recomputed_s
    return seen.recomputed_s * min(1.0, mean_step_s(run) / seen.wall_s)
