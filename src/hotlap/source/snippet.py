"""Short pieces of Python that edits bring along: compared, and renamed, by what they mean."""

import ast
import warnings
from collections.abc import Mapping
from contextlib import suppress


def parse(code: str) -> ast.Module:
    """`ast.parse` that keeps the warnings about the user's code (odd escapes in strings) to itself."""
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(code)


def check(code: str, *, name: str) -> None:
    """Compile `code` and throw the result away.

    Raises:
        SyntaxError: it does not compile.
    """
    with warnings.catch_warnings(action="ignore"):
        compile(code, name, "exec", dont_inherit=True)


def same(one: str, other: str) -> bool:
    """Both are expressions, and mean the same, however they are written."""
    try:
        return ast.dump(parse(f"({one}\n)")) == ast.dump(parse(f"({other}\n)"))
    except SyntaxError:
        return False


def statements(code: str) -> list[str]:
    """Each statement of `code` in one spelling, to be compared."""
    return [ast.dump(statement) for statement in parse(code).body]


def with_items(header: str) -> list[str]:
    """The items of a `with ...` header, in one spelling."""
    (statement,) = parse(f"{header}:\n pass\n").body
    assert isinstance(statement, ast.With)
    return [ast.dump(item) for item in statement.items]


def is_value(code: str) -> bool:
    """`code` can be the value of one keyword argument, and of no more."""
    with suppress(SyntaxError):
        match parse(f"f(k={code}\n)").body:
            case [ast.Expr(value=ast.Call(args=[], keywords=[_]))]:
                return True
    return False


def renamed(code: str, names: Mapping[str, str]) -> str:
    """`code` with each variable that is a key of `names` called by its value instead."""
    changes = [
        (node.lineno, node.col_offset, node.id)
        for node in ast.walk(parse(code))
        if isinstance(node, ast.Name) and names.get(node.id, node.id) != node.id
    ]
    lines = code.encode().split(b"\n")
    for line, column, name in sorted(changes, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + names[name].encode() + text[column + len(name.encode()) :]
    return b"\n".join(lines).decode()
