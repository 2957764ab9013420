"""Loss scaling around a training step: the lines where it is written.

The factor goes in as the gradient of the loss, and is taken out of the parameters' gradients right behind the backward
pass: so the loss is never another number, and what stands between the backward pass and the update (clipping, norms
that are logged) sees the gradients themselves.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotlap.record import Run
from hotlap.source import Edit, InsertAfterImports, Replace, Script, is_name, scripts, top_of

# Growing doubles it every 2,000 steps where there is room. torch begins at 65,536 and leaves out the first updates
# until nothing overflows; factors from 8 to 32,768 were enough for all networks that NVIDIA tried (Training With Mixed
# Precision, "Loss scaling to preserve small gradient magnitudes").
FIRST_SCALE = 1024.0

_NAMES = ("scaler", "loss_scaler", "hotlap_scaler")


@dataclass(frozen=True, slots=True, eq=False)
class ScaledStep:
    """`loss.backward()` and `optimizer.step()`, one behind the other in the same block."""

    backward: ast.Call
    loss: str
    """"loss", "self.loss"."""
    step: ast.Call
    optimizer: str
    scaler: str
    """A name that the script does not use."""


def scaled_step(run: Run) -> tuple[Script, ScaledStep] | None:
    """The only backward pass and the only update of the script; None where these are not all, or not side by side.

    Raises:
        UserError: a file is missing or changed since.
    """
    known = scripts(run)
    backward = [(script, call) for script in known for call in script.methods("backward")]
    steps = [
        (script, call, name)
        for script in known
        for name in _optimizers(run, script)
        for call in script.methods("step")
        if ast.unparse(_receiver(call)) == name
    ]
    if len(backward) != 1 or len(steps) != 1 or backward[0][0] is not steps[0][0]:
        return None
    script, call, optimizer = steps[0]
    loss = _receiver(backward[0][1])
    given = [*call.args, *call.keywords, *backward[0][1].args, *backward[0][1].keywords]
    scaler = next((name for name in _NAMES if script.spelled(name) is None), None)
    if given or not is_name(loss) or scaler is None or not _follow(script, backward[0][1], call):
        return None
    return script, ScaledStep(backward[0][1], ast.unparse(loss), call, optimizer, scaler)


def scaling_edits(run: Run) -> Sequence[Edit]:
    """A scaler behind the imports; four calls of it around the backward pass and the update."""
    found = scaled_step(run)
    if found is None:
        return ()
    script, one = found
    backward = f"{one.loss}.backward({one.scaler}.scale(torch.ones_like({one.loss})))"
    make = f'{one.scaler} = torch.amp.GradScaler("cuda", init_scale={FIRST_SCALE})'
    return (
        InsertAfterImports(site=top_of(script.path, script.sha256), code=make, imports="import torch"),
        Replace(
            site=script.site(one.backward, calls="backward"),
            code=f"{backward}\n{one.scaler}.unscale_({one.optimizer})",
            imports="import torch",
        ),
        Replace(
            site=script.site(one.step, calls="step"), code=f"{one.scaler}.step({one.optimizer})\n{one.scaler}.update()"
        ),
    )


def already_scales(known: Sequence[Script]) -> int | None:
    """A line with a GradScaler; None where there is none."""
    found = (script.spelled("GradScaler") for script in known)
    return next((getattr(node, "lineno", 0) for node in found if node is not None), None)


def other_gradients(known: Sequence[Script]) -> int | None:
    """A line that takes gradients of something else than a loss by parameters, or by a call of its own."""
    for script in known:
        for call in script.all_calls():
            wanted = any(word.arg in ("requires_grad", "create_graph") for word in call.keywords)
            if wanted or script.full_name(call.func) in ("torch.autograd.grad", "torch.autograd.backward"):
                return call.lineno
        for call in script.methods("requires_grad_"):
            if not any(isinstance(arg, ast.Constant) and arg.value is False for arg in call.args):
                return call.lineno
    return None


def _optimizers(run: Run, script: Script) -> Iterator[str]:
    """`optimizer = Adam(...)` -> "optimizer"."""
    for site in run.call_sites:
        call = script.at(site) if "optimizer" in site.detail else None
        outer = next(script.around(call), None) if call is not None else None
        if isinstance(outer, ast.Assign) and len(outer.targets) == 1 and is_name(outer.targets[0]):
            yield ast.unparse(outer.targets[0])


def _receiver(call: ast.Call) -> ast.expr:
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


def _follow(script: Script, first: ast.Call, second: ast.Call) -> bool:
    """Both are statements of their own in the same block, in this order; nothing between them leaves it."""
    one, other = (next(script.around(call)) for call in (first, second))
    if not (isinstance(one, ast.Expr) and isinstance(other, ast.Expr)):
        return False
    block = script.block_of(one)
    behind = block[block.index(one) + 1 :]
    if other not in behind:
        return False
    leaving = (ast.Continue, ast.Break, ast.Return, ast.Raise)
    between = behind[: behind.index(other)]
    return not any(isinstance(node, leaving) for statement in between for node in ast.walk(statement))
