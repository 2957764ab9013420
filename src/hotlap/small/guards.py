"""Notices between two calls that a model, a function or an optimizer is no longer what was compiled."""

import dis
import gc
import inspect
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from numbers import Number
from types import CellType, CodeType, EllipsisType, MethodType, ModuleType, NoneType, SimpleNamespace
from typing import Any

import torch
from torch import nn

from hotlap.native import core
from hotlap.small.lowering import name_of
from hotlap.small.program import Program, Unsupported, native
from hotlap.small.trace import HOOKS

CONSTANTS = (Number, str, bytes, range, Enum, NoneType, EllipsisType, torch.dtype, torch.device, torch.Size)
"""They never change, so that identity is enough."""

LIBRARIES = ("torch", "math", "numpy", "operator", "itertools", "typing", "argparse", "builtins")
"""Their functions are taken as they are: they read what they are given, and random numbers, which tracing notices."""

UNSEEN = {"globals", "locals", "vars", "eval", "exec", "open", "__import__", "__dict__", "attrgetter", "methodcaller"}
UNSEEN |= {"setattr", "delattr", "backends", "initial_seed"}
UNSEEN |= {name for name in dir(torch) if name.endswith("_enabled") or name.startswith("get_")} - {"get_device"}
"""What these read or change, no name in the code tells; and settings of torch's."""

BY_SYNTAX = {"forward", "__call__", "__getattr__", "__get__", "__set__", "__enter__", "__exit__", "__next__"}
BY_SYNTAX |= {name for name in dir(torch.Tensor) if name[:2] == "__" and callable(getattr(torch.Tensor, name))}
BY_SYNTAX -= set(dir(object))
BY_SYNTAX |= {"__getattribute__", "__lt__", "__le__", "__gt__", "__ge__", "__ne__"}
"""Methods that are called though no name in the code tells. Not `__eq__`: of dataclasses it reads all."""

CHANGES = {"STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "STORE_SLICE", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_SUBSCR"}
"""Instructions that change what others read: to trace is to run once more."""

PARTS: dict[type, tuple[str, ...]] = {
    MethodType: ("__self__", "__func__"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    property: ("fget", "fset"),
    partial: ("func", "args", "keywords"),
}
"""What a value of these kinds reads is what its parts read."""

TABLES = ("_parameters", "_modules", "_buffers")

MODULE = vars(nn.Module()).keys() - {"training"}
"""Attributes that every module has, and that are watched apart from the others."""


NOT_CALLED = {"__init__", "reset_parameters", "extra_repr"}
"""Methods of torch's layers that no forward calls."""


def new() -> Any:
    """A guard that watches nothing yet; Unsupported where there is no native core."""
    native(torch.float32)
    return core().module.Guard()


def traced(what: Any, trace: Callable[[], Program], *others: Any) -> tuple[Program, Any]:
    """What `trace` makes of a module or function, and a guard of all that it, and the others, may have read.

    Raises:
        Unsupported: it reads what cannot be watched, or changes what it reads.
    """
    reads = reading(what, *others)
    program = trace()
    if not reads.guard.holds():
        raise Unsupported(f"the forward of {name_of(what)} changes what it reads.")
    for p in program.parameters:
        reads.value(p, "a tensor")
    reads.guard.result(torch._C._is_any_autocast_enabled, False)
    return program, reads.guard


def reading(*what: Any) -> "_Reads":
    """All that modules' forwards or functions may read, watched; Unsupported names what cannot be."""
    names, known = set(BY_SYNTAX), 0
    while known < len(names):
        known = len(names)
        reads = _Reads(names)
        for one in what:
            try:
                reads.value(one, name_of(one))
            except RecursionError:
                raise Unsupported(f"what {name_of(one)} reads lies too deep.") from None
    return reads


def memory(tensors: Iterable[torch.Tensor]) -> Any:
    """A guard of where tensors lie, and in which form."""
    guard = new()
    for tensor in tensors:
        guard.tensor(tensor)
    return guard


def watch_hooks(guard: Any, tensor: torch.Tensor) -> None:
    """Who looks at its gradient: hooks that were removed leave an empty dict."""
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        hooks = getattr(tensor, name)
        guard.attribute(tensor, name, hooks)
        if hooks is not None:
            guard.size(hooks)


class _Reads:
    """Watches what code may read: of each object that it can reach, what the names that stand in the code mean there.

    `names` grows with the code that is found.
    """

    def __init__(self, names: set[str]) -> None:
        self.guard = new()
        self._names = names
        self._seen: dict[int, Any] = {}

    def value(self, value: Any, what: str) -> None:
        """Watch what may be read of a value. That it is still this one is watched where it was found."""
        if isinstance(value, CONSTANTS) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if inspect.isfunction(value):
            self._function(value, what)
        elif type(value) in PARTS:
            self._all([getattr(value, name) for name in PARTS[type(value)]], what)
        elif type(value) is tuple:
            self._all(value, what)
        elif isinstance(value, nn.Module):
            self._module(value, what)
        elif isinstance(value, torch.Tensor):
            self._tensor(value, what)
        else:
            self._record(value, what)

    def _tensor(self, tensor: torch.Tensor, what: str) -> None:
        """Where it lies, and what it is; of a constant, which may have been copied, its version too."""
        if type(tensor) not in (torch.Tensor, nn.Parameter):
            raise Unsupported(f"{what} is a {type(tensor).__name__}.")
        self.guard.tensor(tensor)
        self.guard.attribute(tensor, "requires_grad", tensor.requires_grad)
        if tensor.requires_grad:
            if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
                raise Unsupported(f"{what} has a gradient hook.")
            watch_hooks(self.guard, tensor)
        else:
            with suppress(RuntimeError):  # one of inference mode has none: where it is read it is refused
                self.guard.attribute(tensor, "_version", tensor._version)

    def _all(self, values: Iterable[Any], what: str) -> None:
        for value in values:
            self.value(value, what)

    def _entries(self, table: dict[Any, Any], keys: Iterable[Any], what: str) -> None:
        for key in keys:
            self.guard.entry(table, key, table[key])
            self.value(table[key], f"{what}.{key}" if what else key)

    def _function(self, function: Any, what: str) -> None:
        """A function of a library is taken as it is, but not one of another's that it decorates."""
        code, is_ours = function.__code__, not _is_of_library(function)
        if is_ours:
            found: dict[str, set[str]] = {"attribute": set(), "global": set(), "base": set()}
            for kind, name in _names_in(code, what):
                found[kind].add(name)
            names, outer, bases = found.values()
            if unseen := (names | outer) & UNSEEN:
                raise Unsupported(f"{what} reads by {min(unseen)}, and what that reads cannot be watched.")
            self._names |= names | outer & {"getattr"}
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                self.guard.attribute(function, name, getattr(function, name))
            self._all((function.__defaults__, function.__kwdefaults__), f"a default of {what}")
            self._entries(function.__globals__, outer & function.__globals__.keys(), "")
            for name in bases & function.__globals__.keys():
                self.guard.entry(function.__globals__, name, function.__globals__[name])
            self._entries(vars(function), self._read_in(vars(function)), what)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if cell != _EMPTY and name != "__class__" and (is_ours or callable(cell.cell_contents)):
                self.guard.attribute(cell, "cell_contents", cell.cell_contents)
                self.value(cell.cell_contents, name)

    def _table(self, table: dict[str, Any], read: Iterable[str], what: str) -> None:
        """Of one object: what is not read of it may change, but nothing may be added."""
        self.guard.size(table)
        self._entries(table, read, what)

    def _module(self, module: nn.Module, what: str) -> None:
        own, kind = vars(module), type(module)
        for hooks in HOOKS:
            self.guard.size(own[hooks])
        for table in TABLES:
            self.guard.contents(own[table])
            for name, part in own[table].items():
                self.value(part, f"{what}.{name}")
        layers = [parent for parent in kind.__mro__[:-1] if parent is not nn.Module and _is_of_library(parent)]
        methods = [method for layer in layers for name, method in vars(layer).items() if name not in NOT_CALLED]
        methods = [method for method in methods if inspect.isfunction(method)]
        # What torch's own layers read are numbers.
        for name in own.keys() & {name for method in methods for name in method.__code__.co_names} - MODULE:
            self.guard.entry(own, name, own[name])
        self._table(own, self._read_in(own) - MODULE, what)
        self._class(kind, what)

    def _record(self, value: Any, what: str) -> None:
        """A dict, a module of Python, or a plain object."""
        kind = type(value)
        if _is_of_library(value):
            return
        if kind is dict:
            self._table(value, value, what)
        elif kind in (ModuleType, Namespace, SimpleNamespace) or _is_plain(value):
            self._table(vars(value), self._read_in(vars(value)), what)
            self._class(kind, what)
        else:
            raise Unsupported(f"the forward reads {what} ({kind.__name__}), whose changes cannot be watched.")

    def _class(self, kind: type, what: str) -> None:
        for parent in kind.__mro__:
            (table,) = gc.get_referents(vars(parent))  # the dict behind the proxy
            if id(table) not in self._seen and not _is_of_library(parent):
                self._seen[id(table)] = table
                self._table(table, self._read_in(table), what)

    def _read_in(self, table: Iterable[str]) -> set[str]:
        """Of the names in it those that are read: after `getattr` it may be any."""
        return {n for n in table if n in self._names or ("getattr" in self._names and n[:2] != "__")}


def _names_in(code: CodeType, what: str) -> Iterator[tuple[str, str]]:
    """Each name with what it is of: "attribute", "global", or "base" (the class in `super(Class, self)`).

    Also those in functions inside. "__import__" where one imports. Unsupported where something is changed.
    """
    before = None
    for one in dis.get_instructions(code):
        if one.opname in CHANGES or (one.opname == "STORE_DEREF" and one.argval in code.co_freevars):
            raise Unsupported(f"{what} changes {one.argval or 'an item'}, and would once more while it is traced.")
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield "base" if before == "super" else "global", one.argval
        elif one.opcode in dis.hasname:
            yield "attribute", "__import__" if one.opname == "IMPORT_NAME" else one.argval
        before = one.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant, what)


def _is_of_library(value: Any) -> bool:
    """A function, class or module of LIBRARIES."""
    name: Any = None
    if isinstance(value, ModuleType):
        name = value.__name__
    elif inspect.isfunction(value):  # its `__module__` may be that of another that it wraps
        name = value.__globals__.get("__name__")
    elif callable(value):
        name = getattr(getattr(value, "__objclass__", value), "__module__", None)
    return str(name).partition(".")[0] in LIBRARIES


def _is_plain(value: Any) -> bool:
    """Attributes alone, of classes written in Python; not the standard library's: a logger leads far away."""
    classes, home = type(value).__mro__[:-1], type(value).__module__.partition(".")[0]
    is_other = any("__new__" in vars(parent) or _is_of_library(parent) for parent in classes)
    return hasattr(value, "__dict__") and not is_other and home not in sys.stdlib_module_names


_EMPTY = CellType()
