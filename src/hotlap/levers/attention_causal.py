"""Masks under which no query sees a later key, as scripts write them: what `is_causal=True` says in a word."""

import ast
from collections.abc import Callable

from hotlap.levers.attention_parts import is_self, like
from hotlap.source import Script

_SQUARES = ("torch.ones(N, N, **_)", "torch.ones((N, N), **_)", "torch.ones([N, N], **_)")

# What changes neither the values of a mask nor its last two dimensions, or cuts both to one length.
_SAME = (
    *("E.bool()", "E.float()", "E.contiguous()", "E.to(_)", "E.to(_, _)", "E.unsqueeze(0)", "E.unsqueeze(1)"),
    *("E.view(N, N)", "E.view(1, N, N)", "E.view(1, 1, N, N)"),
    *("E[None]", "E[None, None]", "E[:N, :N]", "E[:, :N, :N]", "E[:, :, :N, :N]"),
)

Made = Callable[[str], ast.expr | None]
"""Name -> what it was assigned just before; None where that is not known."""


def hides_later(script: Script, node: ast.expr, made: Made) -> bool:
    """True at each later key and nowhere else, of a square mask. (So queries and keys are equally many: a mask of
    another size fits no scores.)"""
    node = _bare(script, node)
    if isinstance(node, ast.Name):
        value = made(node.id)
        return value is not None and hides_later(script, value, made)
    opposite = like(script, node, "E == 0", "~E")
    return _shows_earlier(script, opposite["E"], made) if opposite else _is_triangle(script, node, "triu", "1")


def _shows_earlier(script: Script, node: ast.expr, made: Made) -> bool:
    """The opposite: 1 or True at each key that is not later."""
    node = _bare(script, node)
    if isinstance(node, ast.Name):
        value = made(node.id)
        return value is not None and _shows_earlier(script, value, made)
    if isinstance(node, ast.Attribute) and is_self(node):
        buffer = _buffer(script, node)
        return buffer is not None and _shows_earlier(script, buffer, lambda name: None)
    return _is_triangle(script, node, "tril", "", "0")


def _is_triangle(script: Script, node: ast.expr, name: str, *diagonals: str) -> bool:
    """`torch.ones(n, n).triu(1)`, or `torch.triu(torch.ones(n, n), diagonal=1)`."""
    given = [*diagonals, *(f"diagonal={diagonal}" for diagonal in diagonals if diagonal)]
    forms = [form for one in given for form in (f"T.{name}({one})", f"torch.{name}(T, {one})")]
    found = like(script, node, *forms)
    return found is not None and like(script, _bare(script, found["T"]), *_SQUARES) is not None


def _bare(script: Script, node: ast.expr) -> ast.expr:
    """Without what changes neither the values nor the last two dimensions."""
    found = like(script, node, *_SAME)
    return node if found is None else _bare(script, found["E"])


def _buffer(script: Script, node: ast.Attribute) -> ast.expr | None:
    """What `self.register_buffer("name", ...)` was given, in the same class and once."""
    own = script.class_of(node)
    given = [
        call.args[1]
        for call in script.methods("register_buffer")
        if len(call.args) >= 2 and isinstance(call.args[0], ast.Constant) and call.args[0].value == node.attr
        and script.class_of(call) is own
    ]  # fmt: skip
    stored = own is not None and any(
        isinstance(other, ast.Attribute) and other.attr == node.attr and isinstance(other.ctx, ast.Store)
        for other in ast.walk(own)
    )
    return given[0] if len(given) == 1 and not stored else None
