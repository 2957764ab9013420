"""double-precision: parameters are float64, and so is all that is computed with them.

What it says: half of the arithmetic of a step, which is what float32 saves at most on a CPU; on a GPU it is often more.
Why it is bad: each number is eight bytes, and a vector unit holds half as many of them; GPUs for games compute 32 or 64
times fewer float64 operations a second (NVIDIA's CUDA programming guide, "arithmetic instructions").
Example: `model.double()`, because NumPy's arrays are float64 and the products did not fit.
Risk: float32 has 7 digits, not 16: differential equations and second derivatives may need more.

Before:

    model = Net().double()
    x = torch.from_numpy(array)

After:

    model = Net()
    x = torch.from_numpy(array).float()
"""

import ast

from hotlap.record import Finding, Machine, Phase, Run
from hotlap.rules.advice import readable, replaced
from hotlap.rules.step import Change, arithmetic_s, finding, share_of, spent

# Ours: what float32 saves is a half at most, so at a fifth of the step in such arithmetic a tenth is to be had.
MIN_SHARE = 0.10


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Every optimizer has float64 parameters alone."""
    if not run.optimizers or any(optimizer.dtypes != ("float64",) for optimizer in run.optimizers):
        return None
    cost_s = 0.5 * arithmetic_s(run, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    if share_of(run, cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        cost_s,
        f"All parameters are float64: a step could be up to {spent(run, cost_s)} shorter if they, and all that the "
        "model is given, were float32.",
        change=_change(run),
    )


def _change(run: Run) -> Change | None:
    """Where the script asks for it, in so many words."""
    for script in readable(run):
        for call in script.calls("torch.set_default_dtype"):
            if call.args and script.full_name(call.args[0]) in ("torch.float64", "torch.double"):
                return replaced(script, call, "torch.set_default_dtype(torch.float32)")
        casts = [call.func for call in script.methods("double") if isinstance(call.func, ast.Attribute)]
        # `Net().double()` sooner than a tensor's.
        cast = min(casts, key=lambda one: not isinstance(one.value, ast.Call), default=None)
        if cast is not None:
            return replaced(script, cast, f"{script.code(cast.value)}.float")
    return None
