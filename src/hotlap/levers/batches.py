"""Where a script copies its batches to the device: what comes out of its loaders, followed by name to each copy."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from hotlap.source import Script, moved_to
from hotlap.source.names import bound

# What is made of a batch by these is still on the host.
_SAME_DATA = frozenset(
    {"enumerate", "zip", "list", "tuple", "dict", "from_numpy", "as_tensor", "tensor", "stack", "cat"}
)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Kind(IntEnum):
    NEITHER = 0
    LOADER = 1
    """A loader, what goes over one, or what holds one."""
    BATCH = 2
    """What a loader gives, or a part of it."""


def copies(scripts: Sequence[Script], loaders: Sequence[ast.Call]) -> list[tuple[Script, ast.Call]]:
    """The calls that copy a batch of these loaders, or a part of one, to the device, in the order of the text.

    Variables, attributes, containers and arguments of the script's own functions are followed, by their names alone:
    what is found is a copy of a batch wherever one name stands for one thing.
    """
    flow = _Flow(scripts, loaders)
    flow.follow()
    return [(script, call) for script in scripts for call in script.all_calls() if flow.is_copy(script, call)]


@dataclass(slots=True)
class _Flow:
    scripts: Sequence[Script]
    loaders: Sequence[ast.Call]
    _known: dict[tuple[ast.AST | None, str | None], _Kind] = field(default_factory=dict)
    """(function or module that a name is bound in, None for attributes and imports; name) -> what it stands for."""
    _returned: dict[str, _Kind] = field(default_factory=dict)
    """What functions of the script return, by name."""
    _functions: dict[str, list[_Function]] = field(default_factory=dict)
    """The script's own functions by name; those that make an object by the name of its class."""
    _bound: dict[ast.AST, set[str]] = field(default_factory=dict)
    """Names that are bound in a function."""

    def __post_init__(self) -> None:
        for script in self.scripts:
            for node in ast.walk(script.tree):
                for name in bound(node):
                    self._bound.setdefault(script.scope(node), set()).add(name)
                if isinstance(node, _Function):
                    own = script.scope(node)
                    name = own.name if isinstance(own, ast.ClassDef) and node.name == "__init__" else node.name
                    self._functions.setdefault(name, []).append(node)

    def follow(self) -> None:
        """To all that can be reached."""
        before = -1
        while before != (before := self._reached()):
            for script in self.scripts:
                for node in ast.walk(script.tree):
                    self._pass_on(script, node)

    def is_copy(self, script: Script, call: ast.Call) -> bool:
        """It moves a batch to a device."""
        moves = isinstance(call.func, ast.Attribute) and moved_to(call) is not None
        return moves and self._kind(script, call.func.value) is _Kind.BATCH  # type: ignore[attr-defined]

    def _reached(self) -> int:
        return sum(self._known.values()) + sum(self._returned.values())

    def _pass_on(self, script: Script, node: ast.AST) -> None:
        """From one place to the next."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(script, target, self._kind(script, value))
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                self._bind(script, target, self._kind(script, value))
            case ast.For(target=target, iter=gone_over) | ast.comprehension(target=target, iter=gone_over):
                self._bind(script, target, _Kind.BATCH if self._kind(script, gone_over) else _Kind.NEITHER)
            case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
                scope = script.scope(node)
                if isinstance(scope, _Function):
                    _note(self._returned, scope.name, self._kind(script, value))
            case ast.Call():
                self._into_function(script, node)

    def _bind(self, script: Script, target: ast.expr, kind: _Kind) -> None:
        match target:
            case ast.Name(id=name):
                scope = script.scope(target)
                _note(self._known, (scope, name), kind)
                if scope is script.tree and kind is _Kind.LOADER:  # another file imports it
                    _note(self._known, (None, name), kind)
            case ast.Attribute(attr=name):
                _note(self._known, (None, name), kind)
            case ast.Subscript(value=inner) | ast.Starred(value=inner):
                self._bind(script, inner, kind)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._bind(script, part, kind)

    def _into_function(self, script: Script, call: ast.Call) -> None:
        """What a function is given, its parameters are."""
        given = [self._kind(script, value) for value in call.args]
        for inner in [arg for arg in call.args if isinstance(arg, ast.Lambda)]:  # tree_map(lambda t: ..., batch)
            for parameter in inner.args.args:
                _note(self._known, (inner, parameter.arg), max(given))
        for function in self._functions.get(_last_name(call.func), ()):
            names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
            by_place = zip(names[1:] if names[:1] == ["self"] else names, given, strict=False)
            by_name = [(word.arg, self._kind(script, word.value)) for word in call.keywords]
            for name, kind in [*by_place, *by_name]:
                _note(self._known, (function, name), kind)

    def _kind(self, script: Script, node: ast.expr) -> _Kind:
        match node:
            case ast.Name(id=name):
                return self._of_name(script, node, name)
            case ast.Attribute(value=owner, attr=name):
                of_owner = _Kind.BATCH if self._kind(script, owner) is _Kind.BATCH else _Kind.NEITHER
                return max(of_owner, self._known.get((None, name), _Kind.NEITHER))
            case ast.Subscript(value=inner) | ast.Starred(value=inner) | ast.Await(value=inner):
                return self._kind(script, inner)
            case ast.Call():
                return self._of_call(script, node)
        return max([self._kind(script, part) for part in _parts(node)], default=_Kind.NEITHER)

    def _of_name(self, script: Script, node: ast.Name, name: str) -> _Kind:
        """By the innermost function that binds it."""
        functions = [outer for outer in script.around(node) if isinstance(outer, _Function | ast.Lambda | ast.Module)]
        own = next((outer for outer in functions if name in self._bound.get(outer, ())), None)
        return self._known.get((own, name), _Kind.NEITHER)

    def _of_call(self, script: Script, call: ast.Call) -> _Kind:
        if call in self.loaders:
            return _Kind.LOADER
        name = _last_name(call.func)
        returned = self._returned.get(name, _Kind.NEITHER) if name in self._functions else _Kind.NEITHER
        given = max([self._kind(script, arg) for arg in call.args], default=_Kind.NEITHER)
        if name == "next" and given:
            return _Kind.BATCH
        if isinstance(call.func, ast.Attribute) and self._kind(script, call.func.value) is _Kind.BATCH:
            return _Kind.BATCH  # `batch.items()`, `x.float()`
        if given is _Kind.BATCH and name not in _SAME_DATA:
            return returned
        return max(returned, given)  # also `tqdm(loader)`


def _note(table: dict[Any, _Kind], key: object, kind: _Kind) -> None:
    if kind > table.get(key, _Kind.NEITHER):
        table[key] = kind


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Whose values are in the value of an expression: elements of displays and comprehensions, and either choice."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            yield from parts
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
            yield part
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)


def _last_name(function: ast.expr) -> str:
    """`self.train` -> "train"."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""
