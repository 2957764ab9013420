"""no-sync: gradients are exchanged once for each update, not after every backward pass."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from hotlap.levers.data_parallel import EXCHANGE, Pass, passes, why_none
from hotlap.levers.lever import Lever, Numerics
from hotlap.record import Machine, Phase, Run
from hotlap.source import Edit, InsertBefore, Script, word_of
from hotlap.source.names import bound

_FLAG = "require_backward_grad_sync"

# What says itself when gradients are exchanged, or changes what an exchange is.
_CHOSEN = frozenset({"no_sync", _FLAG, "static_graph", "Join"})
# What reads gradients that were not exchanged yet, unless it does so beside the update.
_READERS = frozenset({"grad", "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "unscale_"})

# Of these a condition may be made that is asked earlier than the script asks it.
_PURE = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Load),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


@final
@dataclass(frozen=True, slots=True)
class NoSync(Lever):
    """Leaves out the exchange of gradients in all but the last backward pass before an update.

    What: where gradients are accumulated over several backward passes, `model.require_backward_grad_sync = ...` in
    front of the forward pass: true before the last of them only. It is the flag that `with model.no_sync():` clears.
    Why: DistributedDataParallel adds gradients up over all processes after every backward pass; accumulated ones need
    it once, before the update (PyTorch's documentation of `DistributedDataParallel.no_sync`).
    When it hurts: until the last pass each process holds gradients of its own, so what reads them before finds others
    than in the baseline. Refused where `.grad` is read, or gradients are clipped, at any other place than beside the
    update; where an update is made at several places; where the script says itself when to exchange; and where the
    condition of the update cannot be asked before the pass. Sums are made in another order, so last bits differ.
    """

    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    across_ranks: ClassVar[bool] = True
    shortens: ClassVar[Sequence[Phase]] = EXCHANGE
    no_line: ClassVar[str] = (
        "No update was found in the source that follows several backward passes, at one place only."
    )

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, and an update that follows several passes?"""
        return why_none(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One statement in front of the forward pass."""
        found = ((one, _last(one)) for one in passes(run) if not one.script.spelled(*_CHOSEN))
        return tuple(
            InsertBefore(site=one.site, code=f"{one.script.code(one.call.func)}.{_FLAG} = {last}")
            for one, last in found
            if last is not None
        )


def _last(one: Pass) -> str | None:
    """An expression that is true in front of the last pass before an update; None where it is not known."""
    loop = next((node for node in one.script.around(one.call) if isinstance(node, ast.For | ast.While)), None)
    steps = _steps(one)
    if loop is None or not steps:
        return None
    inside = [step for step in steps if loop in one.script.around(step)]
    if not inside:
        return _in_loop_of_passes(loop, steps, one.script)
    return _under_condition(one, loop, steps) if len(inside) == len(steps) else None


def _steps(one: Pass) -> list[ast.Call]:
    """Calls that update: `optimizer.step()`, `scaler.step(optimizer)`; schedulers are not among them."""
    optimizers = {site.line for site in one.run.call_sites if site.calls == "optimizer.step"}
    calls = [call for call in one.script.methods("step") if _may_update(call)]
    return [call for call in calls if call.lineno in optimizers] or calls


def _may_update(call: ast.Call) -> bool:
    owner = ast.unparse(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    return not any(word in owner for word in ("sched", "profil", "prof."))


def _in_loop_of_passes(loop: ast.For | ast.While, steps: Sequence[ast.Call], script: Script) -> str | None:
    """`for i in range(n): ... backward()`, and then the update."""
    if not (isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)):
        return None
    counted = loop.iter
    if ast.unparse(counted.func) != "range" or len(counted.args) != 1 or counted.keywords or not _is_pure(counted):
        return None
    leaves = any(isinstance(node, ast.Break | ast.Continue | ast.Return) for node in ast.walk(loop))
    block = script.block_of(loop)
    behind = [node for statement in block[block.index(loop) + 1 :] for node in ast.walk(statement)]
    if leaves or not all(step in behind for step in steps) or _reads(loop.body) or not _goes_backward(loop.body):
        return None
    names = {name for statement in loop.body for node in ast.walk(statement) for name in bound(node)}
    if names & {loop.target.id, *_names(counted.args[0])}:
        return None
    limit = counted.args[0]
    end = str(limit.value - 1) if isinstance(limit, ast.Constant) and isinstance(limit.value, int) else None
    return f"{loop.target.id} == {end or f'{script.code(limit)} - 1'}"


def _under_condition(one: Pass, loop: ast.For | ast.While, steps: Sequence[ast.Call]) -> str | None:
    """`backward()`, and then `if (i + 1) % n == 0:` the update."""
    first = next((k for k, statement in enumerate(loop.body) if _holds(statement, one.call)), None)
    at = next((k for k, statement in enumerate(loop.body) if _holds(statement, steps[0])), None)
    if first is None or at is None or first >= at:
        return None
    update = loop.body[at]
    if not isinstance(update, ast.If) or not all(_holds(part, step) for step in steps for part in [_body(update)]):
        return None
    between = loop.body[first:at]
    written = {name for statement in between for node in ast.walk(statement) for name in bound(node)}
    leaves = any(isinstance(node, ast.Continue) for statement in between for node in ast.walk(statement))
    elsewhere = [statement for statement in loop.body if statement is not update]
    if leaves or not _is_pure(update.test) or written & _names(update.test) or _reads(elsewhere):
        return None
    return one.script.code(update.test) if _goes_backward(between) else None


def _body(update: ast.If) -> ast.Module:
    return ast.Module(body=update.body, type_ignores=[])


def _holds(statement: ast.AST, call: ast.AST) -> bool:
    return any(node is call for node in ast.walk(statement))


def _goes_backward(statements: Sequence[ast.stmt]) -> bool:
    return any(word_of(node) == "backward" for statement in statements for node in ast.walk(statement))


def _reads(statements: Sequence[ast.stmt]) -> bool:
    return any(word_of(node) in _READERS for statement in statements for node in ast.walk(statement))


def _is_pure(test: ast.expr) -> bool:
    """Asked earlier it answers the same: numbers, variables and `len` of them, compared."""
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            if not (isinstance(node.func, ast.Name) and node.func.id in ("len", "range") and not node.keywords):
                return False
        elif not isinstance(node, _PURE):
            return False
    return True


def _names(test: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
