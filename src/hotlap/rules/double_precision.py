"""double-precision: the model computes in float64: all of it, for its parameters are, or what meets a float64 tensor.

What it says: half of that arithmetic, which is what float32 saves at most on a CPU; on a GPU it is often more. Where
parameters are float32, the line in which one meets the other (looked for on the CPU).
Why it is bad: each number is eight bytes, and a vector unit holds half as many of them; GPUs for games compute 32 or 64
times fewer float64 operations a second (NVIDIA's CUDA programming guide, "arithmetic instructions").
Example: `model.double()`, because NumPy's arrays are float64 and the products did not fit; a loss that is divided by an
array of NumPy's.
Risk: float32 has 7 digits, not 16: differential equations and second derivatives may need more.

Before:

    model = Net().double()
    x = torch.from_numpy(array)

After:

    model = Net()
    x = torch.from_numpy(array).float()
"""

import ast

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.advice import of_line, readable, replaced
from hotlap.rules.step import Change, arithmetic_s, at_pace, at_sighting, finding, share_of, sightings, spent

# Ours: what float32 saves is a half at most, so at a fifth of the step in such arithmetic a tenth is to be had.
MIN_SHARE = 0.10


EXPLAINS = frozenset({"memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Every optimizer has float64 parameters alone; or none has any, and operators of the model make float64."""
    dtypes = {dtype for optimizer in run.optimizers for dtype in optimizer.dtypes}
    if dtypes == {"float64"}:
        cost_s = 0.5 * arithmetic_s(run, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
        told = "All parameters are float64: a step could be up to"
        rest, change = "if they, and all that the model is given, were float32", _change(run)
    else:
        promoted_s = sum(at_pace(run, phase, run.calls_in(phase).double_s) for phase in Phase)
        cost_s = 0.0 if "float64" in dtypes else 0.5 * promoted_s
        where = next(iter(sightings(run, SightingKind.PROMOTED)), None)
        told = "Operators of the model compute in float64 although no parameter does: a step could be up to"
        rest = "in float32" + (f"; both meet{at_sighting(where)}: {where.text}" if where is not None else "")
        change = of_line(where)
    if share_of(run, cost_s) < MIN_SHARE:
        return None
    return finding(run, cost_s, f"{told} {spent(run, cost_s)} shorter {rest}.", change=change)


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
