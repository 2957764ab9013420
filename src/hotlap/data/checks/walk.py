"""One walk through all that can be reached from a data set, for those that ask whether it has changed.

Attributes, containers, arrays, transforms, closures, and the globals and methods that `__getitem__` uses.
"""

import os
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from operator import is_
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from hotlap.data.checks.checksums import ATOMS
from hotlap.data.checks.code_names import attribute_names, cell_contents, global_names
from hotlap.data.checks.random_state import GENERATORS, Stream, own_stream
from hotlap.data.wrapper import DatasetWrapper

FUNCTIONS: Any = (
    types.FunctionType, types.MethodType, types.BuiltinMethodType, types.MethodWrapperType, partial
)  # fmt: skip

# What a value is to a walk; asked of its type once, because a list may hold a million of one.
_SORTS: dict[str, Any] = {
    "generator": GENERATORS,
    "numbers": (torch.Tensor, np.ndarray),
    "container": (list, tuple, dict, set, frozenset, deque),
    "function": FUNCTIONS,
    "class": type,
}

_NUMBERS = frozenset({int, float, bool, complex})

_STANDARD = tuple(
    os.path.join(folder, "")
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__))
)


@cache
def is_library(module: str | None) -> bool:
    """True for a module that is installed: its globals are no settings of a script. Judged by where its file lies, for
    one beside the script may have the name of one of Python's."""
    top = (module or "").partition(".")[0]
    source = str(getattr(sys.modules.get(top), "__file__", None) or "")
    if top == "hotlap" or not source:
        return top == "hotlap" or top in sys.stdlib_module_names  # some of Python's have no file
    return source.startswith(_STANDARD) or bool({"site-packages", "dist-packages"} & {*PurePath(source).parts})


@cache
def _sort_of(kind: Any) -> str | None:
    return next((sort for sort, kinds in _SORTS.items() if issubclass(kind, kinds)), None)


@dataclass(slots=True)
class Place:
    """A place that held these values; strong references, so that an identity stays what it was."""

    name: str
    read: Callable[[], Collection[Any]]
    of_data_set: bool = False
    of_library: bool = False
    keys: Callable[[], Iterable[Any]] | None = None
    values: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refresh()

    def counts(self) -> bool:
        """A number of the script's own is another one, where nothing was added: items may come to depend on it."""
        now = list(self.read())
        pairs = () if self.of_library or len(now) != len(self.values) else zip(now, self.values, strict=True)
        return any({type(new), type(old)} <= _NUMBERS and not alike(new, old) for new, old in pairs)

    def refresh(self) -> None:
        """Take the present values as given."""
        self.values = list(self.read())

    def what(self) -> str:
        """What has changed, by name where there is one."""
        keys = [*self.keys()] if self.keys is not None else []
        values = list(self.read())
        if len(keys) == len(values) == len(self.values):
            for key, now, then in zip(keys, values, self.values, strict=True):
                if not alike(now, then):
                    return f"{self.name} ({key})"
        return self.name

    def changed(self) -> bool:
        """It holds other values than it did; equal numbers and texts are the same value."""
        now = self.read()
        if len(now) == len(self.values) and all(map(is_, now, self.values)):  # the usual case, without a Python loop
            return False
        now = list(now)
        if len(now) != len(self.values) or not all(map(alike, now, self.values)):
            return True
        self.refresh()  # the same numbers in other objects
        return False


def alike(left: Any, right: Any) -> bool:
    """The same object, or equal values of a kind that cannot be changed."""
    return left is right or (type(left) is type(right) and type(left) in ATOMS and bool(left == right))


class Walk:
    """All that can be reached from some objects, or what is nearest; who inherits says what to keep of it."""

    def __init__(self, root: Any) -> None:
        self.places: dict[tuple[str, int], Place] = {}
        self._streams: list[Stream] = []
        self._visited: dict[int, Any] = {}
        self.root = root
        self._waiting = deque([(type(root).__name__, root, 0)])

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The random generators that were found."""
        return tuple(self._streams)

    def _go(self, max_depth: float) -> None:
        while self._waiting and not self._full():
            name, value, depth = self._waiting.popleft()
            self._meet(name, value)
            if depth > max_depth or id(value) in self._visited or type(value) in ATOMS:
                continue
            self._visited[id(value)] = value
            self._waiting.extend((child_name, child, depth + 1) for child_name, child in self._open(name, value))

    def _full(self) -> bool:
        return False

    def _open(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        kind: Any = type(value)
        sort = _sort_of(kind)
        if sort == "generator":
            self._streams.append(own_stream(name, value))
        elif sort == "numbers":
            yield from self._numbers(name, value)
        elif sort == "container":
            yield from self._container(name, value)
            if hasattr(value, "__dict__"):
                yield from self._object(name, value)
        elif sort == "function":
            yield from self._function(name, value)
        elif sort == "class":
            self._class(name, value, {"__init__", "__new__", "__post_init__"})
        else:
            yield from self._other(name, value)

    def _meet(self, name: str, value: Any) -> None:
        """Anything that is reached, be it for the second time."""

    def _numbers(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """A tensor or an array."""
        raise NotImplementedError

    def _container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        raise NotImplementedError

    def _class(self, name: str, value: type, entries: set[str]) -> None:
        """A class, of which these methods are called beside those that an item's code names."""

    def _other(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, DatasetWrapper):  # another of ours, whose own state is none of the items'
            yield name, value._hotlap_dataset
        elif not isinstance(value, types.ModuleType):
            yield from self._object(name, value)

    def _named(self, code: types.CodeType) -> None:
        """Code that items run."""

    def _place(self, kind: str, owner: Any, place: Callable[[], Place]) -> None:
        self.places[kind, id(owner)] = place()

    def _object(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            of_data_set = value is self.root or isinstance(value, Dataset)
            of_library = is_library(type(value).__module__)
            if attributes:
                self._place(
                    "attributes", value,
                    lambda: Place(
                        f"an attribute of {name}", attributes.values, of_data_set, of_library, attributes.keys
                    ),
                )  # fmt: skip
            yield from ((f"{name}.{key}", child) for key, child in attributes.items())
        slots = slots_of(value)
        yield from ((f"{name}.{key}", child) for key, child in zip(slots, slot_values(value, slots), strict=True))
        for method in ("__getitem__", "__call__", "forward"):
            function = getattr(type(value), method, None)
            if isinstance(function, types.FunctionType):
                yield f"{name}.{method}", function
        self._class(name, type(value), set())

    def _function(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, types.BuiltinMethodType | types.MethodWrapperType):
            owner = getattr(value, "__self__", None)
            if not isinstance(owner, types.ModuleType | type):
                yield f"{name}.__self__", owner
            return
        if isinstance(value, types.MethodType):
            yield f"{name}.__self__", value.__self__
            value = value.__func__
        if isinstance(value, partial):
            yield f"{name}.func", value.func
            yield f"{name}.args", value.args
            yield f"{name}.keywords", value.keywords
        if isinstance(value, types.FunctionType):
            yield from self._code(name, value)

    def _code(self, name: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        if is_library(function.__module__):
            return
        cells = function.__closure__ or ()
        if cells:
            read = partial(cell_contents, cells)
            self._place("closure", function, lambda: Place(f"a variable around {name}", read))
        yield from ((f"{name} (closure)", value) for value in cell_contents(cells))
        yield f"{name} (defaults)", function.__defaults__ or ()
        yield f"{name} (defaults)", function.__kwdefaults__ or ()
        names = [key for key in global_names(function.__code__) if key in function.__globals__]
        if names:
            globals_read = partial(_values, function.__globals__, names)
            self._place("globals", function, lambda: Place(f"a global name used by {name}", globals_read))
        for key in names:
            value = function.__globals__[key]
            if isinstance(value, types.ModuleType):
                yield from self._module(name, value, function.__code__)
            else:
                yield key, value
        self._named(function.__code__)

    def _module(self, name: str, module: types.ModuleType, code: types.CodeType) -> Iterator[tuple[str, Any]]:
        """What the code may take from a module of the script's own (`config.SIZE`)."""
        if is_library(module.__name__):
            return
        names = [key for key in attribute_names(code) if key in vars(module)]
        if names:
            read = partial(_values, vars(module), names)
            self._place(
                f"module {module.__name__}", code,
                lambda: Place(f"a name of {module.__name__} used by {name}", read, keys=lambda: names),
            )  # fmt: skip
        yield from ((f"{module.__name__}.{key}", vars(module)[key]) for key in names)


def slots_of(value: Any) -> list[str]:
    """Attributes of an object that lie beside its `__dict__`, by the names under which they are read."""
    return [key for kind in type(value).__mro__ for key in _slots(kind)]


def _slots(kind: type) -> Iterator[str]:
    slots = vars(kind).get("__slots__", ())
    for key in (slots,) if isinstance(slots, str) else slots:
        if key not in ("__dict__", "__weakref__"):
            yield f"_{kind.__name__.lstrip('_')}{key}" if key.startswith("__") and not key.endswith("__") else key


def slot_values(value: Any, slots: list[str]) -> list[Any]:
    """What is there now; None for what is not set."""
    return [getattr(value, key, None) for key in slots]


def _values(names: dict[str, Any], keys: list[str]) -> list[Any]:
    return [names.get(key) for key in keys]


def children(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a container holds, each with a name."""
    if isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", child) for key, child in value.items())
    elif isinstance(value, set | frozenset):
        yield from ((name, child) for child in value)
    else:
        yield from ((f"{name}[{position}]", child) for position, child in enumerate(value))
