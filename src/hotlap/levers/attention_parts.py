"""The expressions that attention is written with: products, scales, masks, casts."""

import ast
import re
from functools import cache

from hotlap.source import Script

# A score of this or less, beside ordinary ones, has the weight 0 in float32, as minus infinity has.
_LOWEST_FILL = -1e4

# As `ast.unparse` writes it, in small letters.
_LOWEST = re.compile(r"-(\w+\.)*inf|float\('-inf(inity)?'\)|-float\('inf(inity)?'\)|(\w+\.)*finfo\([^()]*\)\.min")


def parts(node: ast.Call | ast.BinOp) -> list[ast.expr]:
    """What a product, sum or call is made of."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [node.func.value, *node.args] if isinstance(node.func, ast.Attribute) else node.args


def like(script: Script, node: ast.AST, *examples: str) -> dict[str, ast.expr] | None:
    """Of an expression that is written as one of these, the parts where the example has a capital letter; None of any
    other. `_` stands for something, `**_` for keywords, and what an example calls by its full name may have any."""
    for example in examples:
        found: dict[str, ast.expr] = {}
        if _is_like(script, node, _parsed(example), found):
            return found
    return None


@cache
def _parsed(example: str) -> ast.expr:
    return ast.parse(example, mode="eval").body


def _is_like(script: Script, node: object, example: object, found: dict[str, ast.expr]) -> bool:
    match example:
        case ast.Name(id=name) if name == "_" or (len(name) == 1 and name.isupper()):
            same = isinstance(node, ast.expr) and ast.unparse(found.setdefault(name, node)) == ast.unparse(node)
            return same or (name == "_" and isinstance(node, ast.expr))
        case ast.Attribute() if ast.unparse(example).startswith("torch."):
            return isinstance(node, ast.expr) and script.full_name(node) == ast.unparse(example)
        case ast.Call(keywords=[*_, ast.keyword(arg=None)]) if isinstance(node, ast.Call):
            return _is_like(script, [node.func, *node.args], [example.func, *example.args], found)
        case ast.AST():
            fields = [name for name in example._fields if name != "ctx"]
            return type(node) is type(example) and all(
                _is_like(script, getattr(node, name), getattr(example, name), found) for name in fields
            )
        case list():
            pairs = zip(node, example, strict=False) if isinstance(node, list) else ()
            same_length = isinstance(node, list) and len(node) == len(example)
            return same_length and all(_is_like(script, *pair, found) for pair in pairs)
    return node == example


def factors(script: Script, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """`a @ b`, however it is spelled -> (a, b)."""
    found = like(script, node, "A @ B", "torch.matmul(A, B)", "torch.bmm(A, B)", "A.matmul(B)", "A.bmm(B)")
    return None if found is None else (found["A"], found["B"])


def turned(script: Script, node: ast.expr) -> ast.expr | None:
    """`k.transpose(-2, -1)` -> k, where these are the last two dimensions for certain."""
    last_two = ("-2, -1", "-1, -2", "2, 3", "3, 2")
    return (like(script, node, "K.mT", *(f"K.transpose({two})" for two in last_two)) or {}).get("K")


def cast(script: Script, node: ast.expr) -> ast.expr | None:
    """`x.float()`, `x.type_as(q)`, `x.to(q.dtype)` -> x: the kernel sums in float32 by itself."""
    return (like(script, node, "X.float()", "X.type_as(_)", "X.to(_.dtype)") or {}).get("X")


def is_scalar(script: Script, node: ast.expr) -> bool:
    """A number. (Of a variable it is not known; torch itself refuses a tensor as scale.)"""
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.UnaryOp(operand=operand):
            return is_scalar(script, operand)
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() | ast.Pow() | ast.FloorDiv(), right=right):
            return is_scalar(script, left) and is_scalar(script, right)
        case ast.Call(func=ast.Attribute(attr="size"), args=[dimension]):
            return number(dimension) is not None
        case ast.Call(func=function, args=[inner], keywords=[]):
            name = script.full_name(function) or ast.unparse(function)
            return name in ("math.sqrt", "numpy.sqrt", "float", "int") and is_scalar(script, inner)
    return number(node) is not None


def is_low(node: ast.expr) -> bool:
    """As good as minus infinity."""
    value = number(node)
    return _LOWEST.fullmatch(ast.unparse(node).lower()) is not None if value is None else value <= _LOWEST_FILL


def number(node: ast.expr) -> float | None:
    """The value of a number that is written out."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, int | float) else None


def text(script: Script, node: ast.expr | ast.stmt) -> str:
    """As it is written, if that is one line."""
    found = script.code(node)
    return ast.unparse(node) if "\n" in found or "\r" in found else found


def enclosed(script: Script, node: ast.expr) -> str:
    """In parentheses where something in front of it, or behind, would bind more closely."""
    atom = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant)
    return text(script, node) if atom else f"({text(script, node)})"


def is_aside(statement: ast.stmt) -> bool:
    """`name = ...`, with nothing in it that changes something else (by torch's names for that)."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            return not any(_changes(node) for node in ast.walk(value))
    return False


def _changes(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name.endswith("_") and not name.endswith("__")
        case ast.keyword(arg="out") | ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
            return True
    return False


def attribute_of(script: Script, call: ast.Call) -> str | None:
    """`self.drop = nn.Dropout(0.1)` -> "drop"."""
    outer = next(iter(script.around(call)), None)
    if isinstance(outer, ast.Assign) and len(outer.targets) == 1 and outer.value is call:
        target = outer.targets[0]
        return target.attr if isinstance(target, ast.Attribute) and is_self(target) else None
    return None


def is_self(node: ast.expr) -> bool:
    """An attribute of `self`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
