"""The source behind the loops around a training step -> the place where the script trains once more, if it does.

A script that trains in several parts (pretraining, then fine-tuning) is seen in its first one. What comes after a step
is read, not run: the statements behind those that are under way, and the user's functions and methods that they call,
as far as names lead to them. A part of a training is a loop that goes backward and lets an optimizer step.
"""

import ast
import inspect
from collections import ChainMap
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import FrameType, FunctionType, ModuleType
from typing import Any

from hotlap.probe.planned import COMPREHENSIONS, FUNCTIONS, holds, outwards, parsed
from hotlap.probe.sites import is_users

_TRAINING = frozenset({"backward", "step"})

_Names = Mapping[str, Any]


def trains_again(frame: FrameType | None) -> str | None:
    """ "train.py:45", the statement that does so; None where none is seen. `frame`: where a step was made."""
    try:
        stack = [outer for outer in outwards(frame) if is_users(outer.f_code.co_filename)]
        under_way = {outer.f_code.co_name for outer in stack if outer.f_code.co_name != "<module>"}
        for outer in stack:
            names = ChainMap(outer.f_locals, outer.f_globals)
            for statement in _behind(outer):
                loops = _Loops(under_way)
                loops.look(statement, names)
                if loops.methods >= _TRAINING:
                    return f"{PurePath(outer.f_code.co_filename).name}:{statement.lineno}"
    except Exception:  # whatever the script's objects do: then it is not known
        return None
    return None


def _behind(frame: FrameType) -> list[ast.stmt]:
    """Statements of the frame's own function that come after the one that is under way, those of loops as well: they
    come before its next turn."""
    found: list[ast.stmt] = []
    node: ast.AST | None = parsed(frame.f_code.co_filename)
    while node is not None:
        inner = next((child for child in ast.iter_child_nodes(node) if holds(child, frame.f_lineno)), None)
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(node, block, None)
            if isinstance(statements, list) and inner in statements:
                found += statements[statements.index(inner) + 1 :]
        if isinstance(inner, FUNCTIONS):
            found.clear()
        node = inner
    return found


class _Loops:
    """What is called in the loops of some source, also by the user's functions that are called there."""

    def __init__(self, under_way: set[str]) -> None:
        self.methods: set[str] = set()
        self._under_way = under_way
        self._seen: set[FunctionType] = set()

    def look(self, node: ast.AST, names: _Names, *, looped: bool = False) -> None:
        if isinstance(node, FUNCTIONS | ast.ClassDef):
            return  # it is made here, not called
        if isinstance(node, ast.Call):
            self._look_into(node.func, names, looped=looped)
        looped = looped or isinstance(node, ast.For | ast.While | COMPREHENSIONS)
        for child in ast.iter_child_nodes(node):
            self.look(child, names, looped=looped)

    def _look_into(self, called: ast.expr, names: _Names, *, looped: bool) -> None:
        function, inside = _function(called, names)
        if isinstance(called, ast.Attribute) and looped:
            self.methods.add(called.attr)
        if function is None and isinstance(called, ast.Attribute) and called.attr in self._under_way:
            self.methods |= _TRAINING  # `other.fit()`, of an object that is not made yet, while `one.fit()` runs
        if function is not None and function not in self._seen:
            self._seen.add(function)
            for statement in _body(function):
                self.look(statement, inside, looped=looped)


def _function(called: ast.expr, names: _Names) -> tuple[FunctionType | None, _Names]:
    """The user's function of that name, and what names stand for in it; nothing of the script's is run to find it."""
    owner: Any = None
    if isinstance(called, ast.Name):
        value = names.get(called.id)
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        owner = names.get(called.value.id)
        value = None if owner is None else inspect.getattr_static(owner, called.attr, None)
    else:
        return None, {}
    if not isinstance(value, FunctionType) or not is_users(value.__code__.co_filename):
        return None, {}
    first = value.__code__.co_varnames[:1] if owner is not None and not isinstance(owner, ModuleType) else ()
    return value, ChainMap(dict.fromkeys(first, owner), value.__globals__)


def _body(function: FunctionType) -> Iterator[ast.stmt]:
    code = function.__code__
    for node in ast.walk(parsed(code.co_filename)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != code.co_name:
            continue
        if min([node.lineno, *(one.lineno for one in node.decorator_list)]) == code.co_firstlineno:
            yield from node.body
