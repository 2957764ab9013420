"""double-precision: the model computes in float64: all of it, for its parameters are, or what meets a float64 tensor.

What it says: half of the time of its operators, which is about what float32 saves on a CPU; where it fits caches that
float64 does not fit, and on a GPU, it is more. Where parameters are float32, the line in which one meets the other
(looked for on the CPU).
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
from collections.abc import Iterator

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.advice import of_line, replaced
from hotlap.rules.change import Change, readable
from hotlap.rules.step import at_pace, at_sighting, finding, operators_s, sightings
from hotlap.source import Script

# Ours: what float32 saves is about a half, so at a fifth of the step in such arithmetic a tenth is to be had.
MIN_SHARE = 0.10


EXPLAINS = frozenset({"memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Every optimizer has float64 parameters alone; or none has any, and operators of the model make float64."""
    dtypes = {dtype for optimizer in run.optimizers for dtype in optimizer.dtypes}
    if dtypes == {"float64"}:
        cost_s = 0.5 * operators_s(run, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, waits=True)
        told = "All parameters are float64: a step could be about"
        rest, change = "if they, and all that the model is given, were float32", _change(run)
    else:
        promoted_s = sum(at_pace(run, phase, run.calls_in(phase).double_s) for phase in Phase)
        cost_s = 0.0 if "float64" in dtypes else 0.5 * promoted_s
        where = next(iter(sightings(run, SightingKind.PROMOTED)), None)
        told = "Operators of the model compute in float64 although no parameter does: a step could be about"
        rest = "in float32" + (f"; both meet{at_sighting(where)}: {where.text}" if where is not None else "")
        change = of_line(where)
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    return finding(run, cost_s, f"{told} {run.with_share(cost_s)} shorter {rest}.", change=change)


def _change(run: Run) -> Change | None:
    """Where the script asks for it, in so many words."""
    for script in readable(run):
        for call in script.calls("torch.set_default_dtype"):
            if call.args and script.full_name(call.args[0]) in ("torch.float64", "torch.double"):
                return replaced(script, call, "torch.set_default_dtype(torch.float32)")
        models = {script.code(call.func.value) for call in script.methods("parameters")}  # type: ignore[attr-defined]
        for call in script.methods("double"):
            if not models.isdisjoint(_called(script, call)):
                return replaced(script, call.func, script.code(call.func).removesuffix("double") + "float")
    return None


def _called(script: Script, cast: ast.Call) -> Iterator[str]:
    """What the script calls that which it makes float64: `net.double()`, or `net = Net().double()`."""
    node: ast.AST = cast
    for outer in script.around(cast):
        if isinstance(outer, ast.Assign):
            yield from map(script.code, outer.targets)
        if not isinstance(outer, ast.Attribute) and not (isinstance(outer, ast.Call) and outer.func is node):
            break
        node = outer
    if isinstance(cast.func, ast.Attribute):
        yield script.code(cast.func.value)
