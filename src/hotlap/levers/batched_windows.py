"""batched-windows: the pieces of a text that make a batch are gathered at once, not sliced one by one."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write
from hotlap.levers.loaders import MIN_SHARE
from hotlap.levers.rewriting import changed_functions, still_to_come
from hotlap.record import Ceiling, Machine, Phase, Run
from hotlap.source import Edit, ReplaceCall, Script, scripts
from hotlap.units import percent

_IMPORTS = "from hotlap.data import windows"

# Calls of a model after which functions that are not there yet will not come any more.
_PATIENCE_CALLS = 4


@final
@dataclass(frozen=True, slots=True)
class BatchedWindows(Lever):
    """Calls `hotlap.data.windows` where a script stacks slices of one long tensor: a hand-written `get_batch`.

    What: `torch.stack([data[i : i + length] for i in ix])` becomes `windows(data, ix, 0, length)`, and likewise with
    `torch.from_numpy(data[i : i + length].astype(np.int64))` for an array, in functions of the script's own. Where
    pieces begin is drawn as it was, by the script.
    Why: each slice costs some microseconds of Python, and a batch of a small language model is made of hundreds of
    them, while nothing trains; one gather takes the same values.
    When it hurts: nowhere that is known. Where pieces reach over an end, or are no plain tensors, they are sliced and
    stacked as before.
    """

    name: ClassVar[str] = "batched-windows"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there one, and does the script's own Python take any time?"""
        otherwise = (
            "No function of the script's stacks slices of one tensor: torch.stack([data[i : i + n] for i in ix])."
        )
        reason = cannot_write(self, run, otherwise)
        share = run.share(Phase.OTHER)
        if reason is None and share is not None and share < MIN_SHARE:
            return f"The script's own Python takes {percent(share)} of a step, so there is nothing to gain."
        return reason

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """The script's own Python: what is no loader's is counted there."""
        return run.mean_phase_s(Phase.OTHER) or 0.0

    def install(self, patch: Patch) -> None:
        """Functions that stack get the code of the changed source, as soon as they are there."""
        import torch

        swapped: dict[FunctionType, CodeType] = {}
        calls = [0]
        call = torch.nn.Module.__call__

        def swap() -> None:
            for function, code in changed_functions(_changed):
                swapped.setdefault(function, function.__code__)
                function.__code__ = code

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if calls[0] < _PATIENCE_CALLS and not torch.compiler.is_compiling():
                calls[0] += 1
                swap()
            return call(self, *args, **kwargs)

        def undo() -> None:
            for function, code in swapped.items():
                function.__code__ = code

        patch.on_undo(undo)
        patch.set(torch.nn.Module, "__call__", __call__)
        swap()
        if swapped and not still_to_come(_changed):
            calls[0] = _PATIENCE_CALLS  # looking for more would take time of the steps that are compared

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each of them."""
        return tuple(
            ReplaceCall(site=script.site(one.call, calls="torch.stack"), code=ast.unparse(one.code), imports=_IMPORTS)
            for script in scripts(run)
            for one in stacks(script)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """`torch.stack([data[i : i + length] for i in ix])`."""

    call: ast.Call
    code: ast.Call
    """What takes its place."""


def stacks(script: Script) -> list[Stack]:
    """Those in functions that can be reached by their names."""
    calls = (call for call in script.calls("torch.stack") if _is_reached(script, call))
    return [Stack(call, code) for call in calls if (code := _gather(script, call)) is not None]


def _is_reached(script: Script, call: ast.Call) -> bool:
    """True in an undecorated function or method; of one within another function, the call of that must go on."""
    scopes = [
        node for node in script.around(call) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    return bool(scopes) and isinstance(scopes[0], ast.FunctionDef) and not scopes[0].decorator_list


def _gather(script: Script, call: ast.Call) -> ast.Call | None:
    """The call of `windows` that means the same."""
    made = call.args[0] if len(call.args) == 1 and not call.keywords else None
    if not isinstance(made, ast.ListComp) or len(made.generators) != 1:
        return None
    loop = made.generators[0]
    if loop.ifs or loop.is_async or not isinstance(loop.target, ast.Name):
        return None
    piece, astype = _piece(script, made.elt)
    if not isinstance(piece, ast.Subscript) or not isinstance(piece.slice, ast.Slice) or piece.slice.step is not None:
        return None
    name = loop.target.id
    bounds = [_distance(bound, name) for bound in (piece.slice.lower, piece.slice.upper)]
    if None in bounds or not _is_plain(piece.value, name) or not (astype is None or _is_plain(astype, name)):
        return None
    keywords = [] if astype is None else [ast.keyword(arg="astype", value=astype)]
    arguments = [piece.value, loop.iter, *(_sum(terms or []) for terms in bounds)]
    return ast.Call(func=ast.Name(id="windows", ctx=ast.Load()), args=arguments, keywords=keywords)


def _piece(script: Script, element: ast.expr) -> tuple[ast.expr, ast.expr | None]:
    """`data[a:b]` -> (itself, None); `torch.from_numpy(data[a:b].astype(t))` -> (data[a:b], t)."""
    if not isinstance(element, ast.Call) or script.full_name(element.func) != "torch.from_numpy":
        return element, None
    inner = element.args[0] if len(element.args) == 1 and not element.keywords else None
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute) or inner.func.attr != "astype":
        return element, None
    if len(inner.args) != 1 or inner.keywords:
        return element, None
    return inner.func.value, inner.args[0]


def _distance(bound: ast.expr | None, name: str) -> list[ast.expr] | None:
    """`i + 1 + length` -> [1, length]; None if it is no sum with one `i`."""
    if bound is None:
        return None
    terms = list(_terms(bound))
    rest = [term for term in terms if not (isinstance(term, ast.Name) and term.id == name)]
    return rest if len(rest) == len(terms) - 1 and all(_is_plain(term, name) for term in rest) else None


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_plain(node: ast.expr, name: str) -> bool:
    """True for numbers, variables other than the loop's own, and sums of these: asked once or often, the same."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        return _is_plain(node.left, name) and _is_plain(node.right, name)
    if isinstance(node, ast.Attribute):
        return _is_plain(node.value, name)
    if isinstance(node, ast.Name):
        return node.id != name
    return isinstance(node, ast.Constant) and type(node.value) is int


def _sum(terms: list[ast.expr]) -> ast.expr:
    """One expression of several."""
    if not terms:
        return ast.Constant(value=0)
    total = terms[0]
    for term in terms[1:]:
        total = ast.BinOp(left=total, op=ast.Add(), right=term)
    return total


def _changed(script: Script) -> Script | None:
    """The same edits in the tree itself."""
    found = stacks(script)
    for one in found:
        one.call.func = ast.parse("__import__('hotlap.data', fromlist=['windows']).windows", mode="eval").body
        one.call.args, one.call.keywords = one.code.args, one.code.keywords
        for node in ast.walk(one.call):
            if isinstance(node, ast.expr | ast.keyword):
                ast.copy_location(node, one.call)
    return script if found else None
