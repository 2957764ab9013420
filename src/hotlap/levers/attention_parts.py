"""The expressions that attention is written with: products, scales, masks, casts."""

import ast
import re

from hotlap.source import Script

_MATMUL = ("torch.matmul", "torch.bmm")

# A score of this or less, beside ordinary ones, has the weight 0 in float32, as minus infinity has.
_LOWEST_FILL = -1e4

# As `ast.unparse` writes it, in small letters.
_LOWEST = re.compile(r"-(\w+\.)*inf|float\('-inf(inity)?'\)|-float\('inf(inity)?'\)|(\w+\.)*finfo\([^()]*\)\.min")

_LAST_TWO = ({-2, -1}, {2, 3})


def parts(node: ast.Call | ast.BinOp) -> list[ast.expr]:
    """What a product, sum or call is made of."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    return [node.func.value, *node.args] if isinstance(node.func, ast.Attribute) else node.args


def factors(script: Script, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """`a @ b`, however it is spelled -> (a, b)."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return left, right
        case ast.Call(func=function, args=[left, right], keywords=[]) if script.full_name(function) in _MATMUL:
            return left, right
        case ast.Call(func=ast.Attribute(value=left, attr="matmul" | "bmm") as function, args=[right], keywords=[]):
            return None if script.full_name(function) in _MATMUL else (left, right)
    return None


def turned(script: Script, node: ast.expr) -> ast.expr | None:
    """`k.transpose(-2, -1)` -> k, where these are the last two dimensions for certain."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="transpose"), args=[one, other], keywords=[]):
            return inner if {number(one), number(other)} in _LAST_TWO else None
        case ast.Attribute(value=inner, attr="mT"):
            return inner
    return None


def cast(call: ast.Call) -> ast.expr | None:
    """`x.float()`, `x.type_as(q)`, `x.to(q.dtype)` -> x: the kernel sums in float32 by itself."""
    match call:
        case ast.Call(func=ast.Attribute(value=inner, attr="float"), args=[], keywords=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="type_as"), args=[_], keywords=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="to"), args=[ast.Attribute(attr="dtype")], keywords=[]):
            return inner
    return None


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
