"""Whether what items are made from is what it was near its surface: asked before each batch, in some microseconds.

What lies deeper is compared each epoch (`hotlap.data.checks.inputs`).
"""

import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import current_process
from operator import is_, itemgetter
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import Dataset, Subset

from hotlap.data.checks.code_names import is_library, names_around
from hotlap.data.checks.random_state import GENERATORS, Stream, own_stream
from hotlap.data.wrapper import DatasetWrapper
from hotlap.native import extension

# Where `Watch` ends: a comparison takes 0.3 us for each object, and is made once a batch.
MAX_OBJECTS = 48
MAX_CHILDREN = 32
MAX_DEPTH = 8

# Cannot be changed.
_ATOMS = frozenset({int, float, bool, complex, str, bytes, type(None), type(...)})
_NUMBERS = frozenset({int, float, bool, complex})

_FUNCTIONS: Any = (
    types.FunctionType, types.MethodType, types.BuiltinMethodType, types.MethodWrapperType, partial
)  # fmt: skip
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)


def num_items(dataset: Any) -> int | None:
    """In it; None if it does not say."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _alike(left: Any, right: Any) -> bool:
    """The same object, or equal values of a kind that cannot be changed."""
    return left is right or (type(left) is type(right) and type(left) in _ATOMS and bool(left == right))


def _alike_or_opened(now: Any, then: Any) -> bool:
    opened = then is None and type(now) not in _ATOMS and not isinstance(now, list | tuple | dict | set | np.ndarray)
    return opened or _alike(now, then)


@dataclass(slots=True)
class Place:
    """A place that held these values; strong references, so that an identity stays what it was."""

    name: str
    read: Callable[[], Collection[Any]]
    of_data_set: bool = False
    of_library: bool = False
    keys: Callable[[], Iterable[Any]] = tuple
    values: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refresh()

    def counts(self) -> bool:
        """A number of the script's own is another one, where nothing was added: items may come to depend on it."""
        now = list(self.read())
        pairs = () if self.of_library or len(now) != len(self.values) else zip(now, self.values, strict=True)
        return any({type(new), type(old)} <= _NUMBERS and not _alike(new, old) for new, old in pairs)

    def refresh(self) -> None:
        """Take the present values as given."""
        self.values = list(self.read())

    def what(self) -> str:
        """What has changed, by name where there is one."""
        keys, values = list(self.keys()), list(self.read())
        if len(keys) == len(values) == len(self.values):
            for key, now, then in zip(keys, values, self.values, strict=True):
                if not _alike(now, then):
                    return f"{self.name} ({key})"
        return self.name

    def changed(self, same: Callable[[Any, Any], bool] = _alike) -> bool:
        """It holds other values than it did; equal numbers and texts are the same value."""
        now = self.read()
        if len(now) == len(self.values) and all(map(is_, now, self.values)):  # the usual case, without a Python loop
            return False
        return len(now) != len(self.values) or not all(map(same, now, self.values))


@final
class Watch:
    """What a data set consists of near its surface, and whether that has changed. Cheap: asked before every batch.

    Sees attributes, short lists and dicts, transforms, closures, the globals that `__getitem__` uses, what torch itself
    counts of changes to tensors, and of lists and arrays with an entry for each item (labels) those of a batch. What
    lies deeper is for `Contents`.
    """

    def __init__(self, root: Any) -> None:
        self._root = root
        self.places: dict[tuple[str, int], Place] = {}
        """By their kind, and the id of the object that they belong to."""
        self.streams: list[Stream] = []
        """The random generators that were found."""
        self._tensors: list[tuple[str, torch.Tensor, int]] = []
        self._by_item: list[tuple[str, Any, Any]] = []
        """(name, what has an entry for each item, a copy of it): labels, names of files."""
        self._subsets: list[tuple[str, Any, Any]] = []
        """The same of what maps items of a Subset to those of the data set inside."""
        inside = root
        while type(inside) is Subset:
            self._subsets.append(("what a Subset picks", inside.indices, copy(inside.indices)))
            inside = inside.dataset
        # In a worker's copy only its own code could change them, and to copy a list takes up all that lies in it.
        self._num_entries = None if current_process().daemon else num_items(inside)
        self._dtype = torch.get_default_dtype()
        self.length = num_items(root)
        """Items in the data set; None if it does not say."""
        self._visited: dict[int, Any] = {}
        waiting = deque([(type(root).__name__, root, 0)])
        while waiting and len(self.places) < MAX_OBJECTS:
            name, value, depth = waiting.popleft()
            if depth <= MAX_DEPTH and id(value) not in self._visited and type(value) not in _ATOMS:
                self._visited[id(value)] = value
                waiting.extend((child_name, child, depth + 1) for child_name, child in self._open(name, value))

    def changed(self, same: Callable[[Any, Any], bool] = _alike) -> str | None:
        """What is no longer as it was ("attribute level of Curriculum"); None if nothing is known to have changed."""
        for place in self.places.values():
            if place.changed(same):
                return place.what()
        for name, tensor, version in self._tensors:
            if tensor._version != version:
                return name
        if torch.get_default_dtype() != self._dtype:
            return "torch's default dtype, which makes the numbers"
        return None if num_items(self._root) == self.length else "the number of items"

    def entry_changed(self, numbers: Sequence[int]) -> str | None:
        """What has an entry for each item, of which that of one of these items is another one now; None: nothing."""
        if not numbers or not (self._by_item or self._subsets):
            return None
        try:
            for name, now, then in self._subsets:
                if _differ(now, then, numbers):
                    return name
                numbers = [*map(then.__getitem__, numbers)]
        except (LookupError, TypeError):  # no number of one item: the data set itself says what becomes of it
            return None
        return next((name for name, now, then in self._by_item if _differ(now, then, numbers)), None)

    def changed_by_item(self) -> str | None:
        """What an item just computed changed in the data set itself, or counted elsewhere.

        Taken as given: what it keeps for later items in a container or an object, and what libraries note.
        """
        for place in self.places.values():
            if place.changed():
                if place.of_data_set or place.counts():
                    return place.what()
                place.refresh()
        return None

    def opened(self) -> str | None:
        """As `changed`, but what was None and is an object now (a file that was opened late) has not changed."""
        return self.changed(_alike_or_opened)

    def _open(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        """What it consists of, each with a name."""
        kind = type(value)
        if issubclass(kind, (torch.Tensor, np.ndarray, *GENERATORS)):
            self._leaf(name, value)
        elif issubclass(kind, _CONTAINERS):
            yield from self._container(name, value)
            if hasattr(value, "__dict__"):
                yield from self._object(name, value)
        elif issubclass(kind, _FUNCTIONS):
            yield from self._function(name, value)
        elif issubclass(kind, DatasetWrapper):  # another of ours, whose own state is none of the items'
            yield name, value._hotlap_dataset
        elif not issubclass(kind, type | types.ModuleType):
            yield from self._object(name, value)

    def _leaf(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if not value.is_inference():  # those count no versions
                self._tensors.append((f"the tensor {name}", value, value._version))
        elif isinstance(value, GENERATORS):
            stream = own_stream(name, value)
            self.streams += [] if stream is None else [stream]
        elif value.ndim == 1 and not value.dtype.hasobject:
            self._note_entries(f"the array {name}", value)

    def _note_entries(self, name: str, value: Any) -> None:
        if len(value) == self._num_entries:
            self._by_item.append((name, value, copy(value)))

    def _container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if len(value) > MAX_CHILDREN:
            if type(value) in (list, dict, deque):
                self._note_entries(name, value)
            return
        if not isinstance(value, tuple | frozenset):
            self.places["container", id(value)] = Place(name, partial(_entries, value))
        if isinstance(value, dict):
            yield from ((f"{name}[{key!r}]", child) for key, child in value.items())
        else:
            yield from ((f"{name}[{position}]", child) for position, child in enumerate(value))

    def _object(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict) and attributes:
            of_data_set = value is self._root or isinstance(value, Dataset)
            of_library = is_library(type(value).__module__)
            about = f"an attribute of {name}"
            place = Place(about, attributes.values, of_data_set, of_library, attributes.keys)
            self.places["attributes", id(value)] = place
            yield from ((f"{name}.{key}", child) for key, child in attributes.items())
        yield from ((f"{name}.{key}", child) for key, child in slot_values(value).items())
        for method in ("__getitem__", "__call__", "forward"):
            function = getattr(type(value), method, None)
            if isinstance(function, types.FunctionType):
                yield f"{name}.{method}", function

    def _function(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, types.BuiltinMethodType | types.MethodWrapperType):
            owner = getattr(value, "__self__", None)
            if not isinstance(owner, types.ModuleType | type):
                yield f"{name}.__self__", owner
        elif isinstance(value, partial):
            yield from ((f"{name}.{part}", getattr(value, part)) for part in ("func", "args", "keywords"))
        elif isinstance(value, types.MethodType):
            yield f"{name}.__self__", value.__self__
            yield name, value.__func__
        elif not is_library(value.__module__):
            yield from self._code(name, value)

    def _code(self, name: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        yield f"{name} (defaults)", function.__defaults__ or ()
        yield f"{name} (defaults)", function.__kwdefaults__ or ()
        for around in names_around(function):
            if around.names:
                place = Place(f"{around.what} {name}", around.values, keys=around.names.copy)
                self.places[around.kind, id(around.owner)] = place
            yield from zip(around.names, around.values(), strict=True)


def _differ(now: Any, then: Any, numbers: Sequence[int]) -> bool:
    """One of these entries is another one; of nested ones only which object it is."""
    if len(now) != len(then):
        return True
    native, are_lists = extension().module, type(now) is type(then) is type(numbers) is list
    if are_lists and native is not None and native.same_entries(now, then, numbers):
        return False  # the usual case
    try:
        if isinstance(now, np.ndarray):
            return bool(now[numbers].tobytes() != then[numbers].tobytes())
        pick = itemgetter(*numbers, numbers[0])  # twice as fast as a loop; of one number alone it gives no tuple
        mine, others = pick(now), pick(then)
    except LookupError:  # its keys are no numbers of items
        return False
    return not (all(map(is_, mine, others)) or all(map(_alike, mine, others)))


def _entries(container: Any) -> Collection[Any]:
    """All that it holds, keys included."""
    return [*container.keys(), *container.values()] if isinstance(container, dict) else container


def slot_values(value: Any) -> dict[str, Any]:
    """Attributes of an object that lie beside its `__dict__` and are set, by the names under which they are read."""
    state: Any = object.__getstate__(value)
    return state[1] if isinstance(state, tuple) else {}
