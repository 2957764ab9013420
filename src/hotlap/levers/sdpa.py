"""sdpa: attention that is written out becomes one fused operator."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, ClassVar, final

from hotlap.levers.attention import Plain, unused_weights, written_out
from hotlap.levers.lever import Lever, Numerics, Patch, Scope, cannot_write, passes_s
from hotlap.levers.rewriting import changed_functions
from hotlap.record import CallSite, Ceiling, Machine, Run
from hotlap.source import AddArgument, Edit, ReplaceStatements, Script, scripts

_IMPORTS = "from torch.nn import functional as F"

# Calls of a model after which functions that are not there yet will not come any more.
_PATIENCE_CALLS = 4


@final
@dataclass(frozen=True, slots=True)
class Sdpa(Lever):
    """Calls `scaled_dot_product_attention` where a script writes `softmax(q @ k^T * scale + mask) @ v`.

    What: the statements from the product of queries and keys to the one with the values become one call, with the
    script's own scale, mask and dropout; and `nn.MultiheadAttention` whose weights are thrown away is called with
    `need_weights=False`, which lets it do the same.
    Why: the fused kernels never write the weights, a matrix of length times length for each head, to memory: several
    times faster, and memory that grows with the length, not with its square (Dao et al., FlashAttention; torch's
    documentation of scaled_dot_product_attention).
    When it hurts: with dropout the fused kernels draw other random numbers, which the gate, that holds this lever to
    rounding, refuses where it shows. A query whose keys are all masked by a large negative number gets the average of
    the values as written, and zeros here. The fused kernels have no second derivative, so a script with
    `create_graph` is left alone. Whatever is written in another way, or whose weights are used elsewhere, stays.
    """

    name: ClassVar[str] = "sdpa"
    scope: ClassVar[Scope] = Scope.STEP
    numerics: ClassVar[Numerics] = Numerics.ROUNDING

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """Is there one, in a script that does without second derivatives?"""
        otherwise = (
            "No attention is written out in the script's own source: a softmax of a product, multiplied with a third "
            "tensor, whose weights nothing else reads."
        )
        reason = cannot_write(self, run, otherwise)
        if reason is not None:
            return reason
        if any("create_graph" in script.text for script in scripts(run)):
            return "The script takes second derivatives (create_graph), which the fused kernels do not have."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """Forward and backward."""
        return passes_s(run)

    def install(self, patch: Patch) -> None:
        """The functions that hold the statements get the code of the changed source, as soon as they are there."""
        import torch

        swapped: dict[FunctionType, CodeType] = {}
        calls = [0]
        inside = [False]
        call = torch.nn.Module.__call__

        def swap() -> None:
            for function, code in changed_functions(_changed):
                swapped.setdefault(function, function.__code__)
                function.__code__ = code

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
            if calls[0] >= _PATIENCE_CALLS or inside[0] or torch.compiler.is_compiling():
                return call(self, *args, **kwargs)
            calls[0] += 1
            swap()
            inside[0] = True
            try:
                return call(self, *args, **kwargs)
            finally:
                inside[0] = False

        def undo() -> None:
            for function, code in swapped.items():
                function.__code__ = code

        patch.on_undo(undo)
        patch.set(torch.nn.Module, "__call__", __call__)
        swap()

    def edits(self, run: Run) -> Sequence[Edit]:
        """At each place, where it can be seen that it is one."""
        return tuple(edit for script in scripts(run) for edit in _edits(script))


def _edits(script: Script) -> Iterator[Edit]:
    for attention in written_out(script):
        yield ReplaceStatements(site=_span(attention), code=attention.code, imports=_IMPORTS)
    for call in unused_weights(script):
        site = script.site(call, calls="torch.nn.MultiheadAttention")
        yield AddArgument(site=site, keyword="need_weights", value="False")


def _span(attention: Plain) -> CallSite:
    """From the first statement to the last."""
    first, last = attention.statements[0], attention.statements[-1]
    return CallSite(
        calls="attention",
        path=attention.script.path,
        sha256=attention.script.sha256,
        line=first.lineno,
        end_line=last.end_lineno or last.lineno,
        col=first.col_offset,
        end_col=last.end_col_offset or 0,
    )


def _changed(script: Script) -> Script | None:
    """The same edits in the tree itself."""
    found, calls = written_out(script), unused_weights(script)
    for attention in found:
        at = attention.block.index(attention.statements[0])
        # Line numbers stay as they were: other levers go by them.
        new = _Qualified(attention.statements[-1]).visit(ast.parse(attention.code)).body
        attention.block[at : at + len(attention.statements)] = new
    for call in calls:
        call.keywords.append(ast.keyword(arg="need_weights", value=ast.Constant(value=False)))
        ast.copy_location(call.keywords[-1], call)
    return script if found or calls else None


class _Qualified(ast.NodeTransformer):
    """Puts statements at the place of another one, and reaches `F` whatever the file imports."""

    def __init__(self, place: ast.stmt) -> None:
        self._place = place

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.expr | ast.stmt | ast.keyword):
            ast.copy_location(node, self._place)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "F":
            return self.generic_visit(ast.parse("__import__('torch').nn.functional", mode="eval").body)
        return self.generic_visit(node)
