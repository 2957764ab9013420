"""Masks under which no query sees a later key, as scripts write them: what `is_causal=True` says in a word."""

import ast
import re
from collections.abc import Callable

from hotlap.levers.attention_parts import is_self, number
from hotlap.source import Script

# What leaves the last two dimensions as they are, or cuts both to one length: `[None, None]`, `[:, :, :n, :n]`.
_SQUARE = re.compile(r"\(?(None(, None)*|(:, )*:([^,:]+), :\4)\)?")

Made = Callable[[str], ast.expr | None]
"""Name -> what it was assigned just before; None where that is not known."""


def hides_later(script: Script, node: ast.expr, made: Made) -> bool:
    """True at each later key and nowhere else, of a square mask. (So queries and keys are equally many: a mask of
    another size fits no scores.)"""
    node = _bare(node)
    match node:
        case ast.Name(id=name):
            value = made(name)
            return value is not None and hides_later(script, value, made)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if not value:
            return _shows_earlier(script, left, made)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return _shows_earlier(script, inner, made)
    return _is_triangle(script, node, "triu", diagonal=1)


def _shows_earlier(script: Script, node: ast.expr, made: Made) -> bool:
    """The opposite: 1 or True at each key that is not later."""
    node = _bare(node)
    match node:
        case ast.Name(id=name):
            value = made(name)
            return value is not None and _shows_earlier(script, value, made)
        case ast.Attribute() if is_self(node):
            buffer = _buffer(script, node)
            return buffer is not None and _shows_earlier(script, buffer, lambda name: None)
    return _is_triangle(script, node, "tril", diagonal=0)


def _is_triangle(script: Script, node: ast.expr, name: str, *, diagonal: int) -> bool:
    """`torch.ones(n, n).triu(1)`, or `torch.triu(torch.ones(n, n), diagonal=1)`."""
    match node:
        case ast.Call(func=function, args=[inner, *rest], keywords=words) if (
            script.full_name(function) == f"torch.{name}"
        ):
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=rest, keywords=words) if attr == name:
            pass
        case _:
            return False
    given = [*rest, *(word.value for word in words if word.arg == "diagonal")]
    found = number(given[0]) if given else 0
    return found == diagonal and len(given) == len(rest) + len(words) <= 1 and _is_square(script, _bare(inner))


def _is_square(script: Script, node: ast.expr) -> bool:
    """`torch.ones(n, n)`."""
    match node:
        case ast.Call(func=function, args=args) if script.full_name(function) == "torch.ones":
            sizes = args[0].elts if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List) else args
            return len(sizes) == 2 and ast.unparse(sizes[0]) == ast.unparse(sizes[1])
    return False


def _bare(node: ast.expr) -> ast.expr:
    """Without what changes neither the values nor the last two dimensions."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="bool" | "to" | "float" | "contiguous")):
            return _bare(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze"), args=[where]) if number(where) in (0, 1):
            return _bare(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="view"), args=[*first, rows, columns]) if ast.unparse(
            rows
        ) == ast.unparse(columns) and all(number(size) == 1 for size in first):
            return _bare(inner)
        case ast.Subscript(value=inner, slice=where) if _SQUARE.fullmatch(ast.unparse(where)):
            return _bare(inner)
    return node


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
