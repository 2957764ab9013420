"""Loss scaling around a training step: the lines where it is written.

The factor goes in as the gradient of the loss, and is taken out of the parameters' gradients right behind the backward
pass: so the loss is never another number, and what stands between the backward pass and the update (clipping, norms
that are logged) sees the gradients themselves.
"""

import ast
from collections.abc import Iterator, Sequence

from hotlap.record import Run
from hotlap.source import AddArgument, Edit, InsertAfterImports, InsertBehind, Replace, Script, is_name, scripts, top_of

# Growing doubles it every 2,000 steps where there is room. torch begins at 65,536 and leaves out the first updates
# until nothing overflows; factors from 8 to 32,768 were enough for all networks that NVIDIA tried (Training With Mixed
# Precision, "Loss scaling to preserve small gradient magnitudes").
FIRST_SCALE = 1024.0


def scaling_edits(run: Run) -> Sequence[Edit]:
    """A scaler behind the imports, and four calls of it around the script's only backward pass and its only update;
    nothing where there are more, or they are not side by side in the same block.

    Raises:
        UserError: a file is missing or changed since.
    """
    known = scripts(run)
    backward = [(script, call) for script in known for call in script.methods("backward")]
    steps = [
        (script, call)
        for script in known
        for name in _optimizers(run, script)
        for call in script.methods("step")
        if ast.unparse(_receiver(call)) == name
    ]
    if len(backward) != 1 or len(steps) != 1 or backward[0][0] is not steps[0][0]:
        return ()
    (script, passes), (_, step) = backward[0], steps[0]
    loss, given = _receiver(passes), [*step.args, *step.keywords, *passes.args, *passes.keywords]
    name = next((name for name in ("scaler", "loss_scaler") if script.spelled(name) is None), None)
    if given or not is_name(loss) or name is None or not _follow(script, passes, step):
        return ()
    before, behind = script.site(passes, calls="backward"), script.site(step, calls="step")
    optimizer, scaled = ast.unparse(_receiver(step)), f"{name}.scale(torch.ones_like({ast.unparse(loss)}))"
    make = f'{name} = torch.amp.GradScaler("cuda", init_scale={FIRST_SCALE})'
    return (
        InsertAfterImports(site=top_of(script.path, script.sha256), code=make, imports="import torch"),
        AddArgument(site=before, keyword="gradient", value=scaled, imports="import torch"),
        InsertBehind(site=before, code=f"{name}.unscale_({optimizer})"),
        InsertBehind(site=behind, code=f"{name}.update()"),
        Replace(site=behind, code=f"{name}.step({optimizer})"),
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
