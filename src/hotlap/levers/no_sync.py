"""no-sync: gradients are exchanged once for each update, not after every backward pass."""

import ast
import re
from collections.abc import Sequence

from hotlap.levers.data_parallel import EXCHANGE, why_none
from hotlap.levers.lever import Lever, Numerics
from hotlap.levers.models import forward_sites
from hotlap.record import Machine, Run
from hotlap.source import Edit, InsertBefore, Script, found_at, is_name, scripts, word_of
from hotlap.source.names import bound

_FLAG = "require_backward_grad_sync"

# What says itself when gradients are exchanged, or changes what an exchange is.
_CHOSEN = frozenset({"no_sync", _FLAG, "static_graph", "Join"})
# What reads gradients that were not exchanged yet, unless it does so beside the update.
_READERS = frozenset({"grad", "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "unscale_"})

# Of these a condition may be made that is asked earlier than the script asks it.
_PURE = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Load),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


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

    numerics = Numerics.ROUNDING
    across_ranks = True
    shortens = EXCHANGE
    no_line = "No update was found in the source that follows several backward passes, at one place only."

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there such a model, and an update that follows several passes?"""
        return why_none(run)

    def edits(self, run: Run) -> Sequence[Edit]:
        """One statement in front of the forward pass."""
        known = [script for script in scripts(run) if not script.spelled(*_CHOSEN)]
        passes = [
            (site, *found)
            for site in forward_sites(run, "data_parallel")
            if (found := found_at(site, known)) is not None
        ]
        return tuple(
            InsertBefore(site=site, code=f"{script.code(call.func)}.{_FLAG} = {last}")
            for site, script, call in passes
            if is_name(call.func) and (last := _last(script, call)) is not None
        )


def _last(script: Script, call: ast.Call) -> str | None:
    """An expression that is true in front of the last pass before an update; None where it is not known."""
    loop = next((node for node in script.around(call) if isinstance(node, ast.For | ast.While)), None)
    others = re.compile(r"sched|profil|prof\.", re.IGNORECASE)  # which step as well
    steps = [step for step in script.methods("step") if not others.search(script.code(step.func))]
    inside = [step for step in steps if any(outer is loop for outer in script.around(step))]
    if loop is None or not steps or 0 < len(inside) < len(steps):
        return None
    return _by_condition(script, call, loop, steps) if inside else _by_count(script, loop, steps)


def _by_count(script: Script, loop: ast.For | ast.While, steps: Sequence[ast.Call]) -> str | None:
    """`for i in range(n): ... backward()`, and then the update."""
    match loop:
        case ast.For(
            target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[limit], keywords=[]) as counted
        ) if _is_pure(counted):
            block = script.block_of(loop)
            behind = block[block.index(loop) + 1 :]
            leaving = (ast.Break, ast.Continue, ast.Return)
            if not _are_plain(loop.body, leaving, {name, *_names(limit)}) or _reads(loop.body):
                return None
            if not all(_is_in(script, step, behind) for step in steps):
                return None
            known = isinstance(limit, ast.Constant) and isinstance(limit.value, int)
            return f"{name} == {limit.value - 1 if known else f'{script.code(limit)} - 1'}"  # type: ignore[attr-defined]
    return None


def _by_condition(script: Script, call: ast.Call, loop: ast.For | ast.While, steps: Sequence[ast.Call]) -> str | None:
    """`backward()`, and then `if (i + 1) % n == 0:` the update."""
    outer = [*script.around(call)]
    first = next((k for k, statement in enumerate(loop.body) if statement in outer), len(loop.body))
    at = next((k for k, statement in enumerate(loop.body) if statement in script.around(steps[0])), -1)
    update = loop.body[at]
    if first >= at or not isinstance(update, ast.If) or not _is_pure(update.test):
        return None
    if not all(_is_in(script, step, update.body) for step in steps):
        return None
    plain = _are_plain(loop.body[first:at], (ast.Continue,), _names(update.test))
    elsewhere = [statement for statement in loop.body if statement is not update]
    return script.code(update.test) if plain and not _reads(elsewhere) else None


def _is_in(script: Script, call: ast.Call, block: Sequence[ast.stmt]) -> bool:
    return any(outer in block for outer in script.around(call))


def _are_plain(statements: Sequence[ast.stmt], leaving: tuple[type, ...], names: set[str]) -> bool:
    """They go backward, do not leave the loop, and leave these names alone."""
    nodes = [node for statement in statements for node in ast.walk(statement)]
    backward = any(word_of(node) == "backward" for node in nodes)
    return backward and not any(isinstance(node, leaving) or names & {*bound(node)} for node in nodes)


def _reads(statements: Sequence[ast.stmt]) -> bool:
    return any(word_of(node) in _READERS for statement in statements for node in ast.walk(statement))


def _is_pure(test: ast.expr) -> bool:
    """Asked earlier it answers the same: numbers, variables and `len` of them, compared."""
    calls = [node for node in ast.walk(test) if isinstance(node, ast.Call)]
    known = all(ast.unparse(call.func) in ("len", "range") and not call.keywords for call in calls)
    return known and all(isinstance(node, _PURE) for node in ast.walk(test))


def _names(test: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
