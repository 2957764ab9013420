"""Whether an item is always the same: generators that it could draw from, state that it could depend on."""

import dis
import pickle
import random
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import Dataset

# Looking through a data set ends here: a check takes 0.3 us for each object, and is made once a batch.
MAX_OBJECTS = 48
MAX_CHILDREN = 32
MAX_DEPTH = 8

_SIMPLE = frozenset({int, float, bool, complex, str, bytes, type(None)})


@dataclass(frozen=True, slots=True)
class Stream:
    """A random generator: its state can be read, compared and put back."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]

    def fingerprint(self, state: Any) -> object:
        """A state in a form that `==` compares."""
        if isinstance(state, torch.Tensor):
            return state.numpy().tobytes()
        return state if self.name == "random" else pickle.dumps(state)


_GLOBAL_STREAMS = (
    Stream("random", random.getstate, random.setstate),
    Stream("numpy.random", np.random.get_state, np.random.set_state),
    Stream("torch", torch.default_generator.get_state, torch.default_generator.set_state),
)


def _own_stream(name: str, generator: Any) -> Stream | None:
    if isinstance(generator, random.Random):
        return Stream(name, generator.getstate, generator.setstate)
    if isinstance(generator, np.random.RandomState):
        return Stream(name, generator.get_state, generator.set_state)
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        return Stream(name, lambda: bits.state, partial(setattr, bits, "state"))
    if isinstance(generator, torch.Generator):
        return Stream(name, generator.get_state, generator.set_state)
    return None


@dataclass(slots=True)
class Streams:
    """The three global generators and those found in the data set."""

    own: tuple[Stream, ...] = ()

    def states(self) -> list[Any]:
        """One per generator; to be handed to `drawn` and `restore`."""
        return [stream.read() for stream in (*_GLOBAL_STREAMS, *self.own)]

    def drawn(self, before: list[Any]) -> str | None:
        """Name of the first generator that moved since; None if none did."""
        for stream, state in zip((*_GLOBAL_STREAMS, *self.own), before, strict=True):
            if stream.fingerprint(stream.read()) != stream.fingerprint(state):
                return stream.name
        return None

    def restore(self, before: list[Any]) -> None:
        """Put every generator back to where it was."""
        for stream, state in zip((*_GLOBAL_STREAMS, *self.own), before, strict=True):
            stream.write(state)


@dataclass(slots=True)
class _Seen:
    """A place that held these values; strong references, so that an id stays what it was."""

    name: str
    read: Callable[[], Iterable[Any]]
    of_data_set: bool = False
    keys: Callable[[], Iterable[Any]] | None = None
    values: list[Any] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        self.values = list(self.read())
        self.ids = list(map(id, self.values))

    def what(self) -> str:
        """What has changed, by name where there is one."""
        keys = [*self.keys()] if self.keys is not None else []
        values = list(self.read())
        if len(keys) == len(values) == len(self.values):
            for key, now, then in zip(keys, values, self.values, strict=True):
                if not _alike(now, then):
                    return f"{self.name} ({key})"
        return self.name

    def changed(self) -> bool:
        # The usual case in one comparison, without a Python loop.
        if list(map(id, self.read())) == self.ids:
            return False
        now = list(self.read())
        if len(now) != len(self.values) or not all(map(_alike, now, self.values)):
            return True
        self.refresh()  # the same numbers in other objects
        return False


def _alike(left: Any, right: Any) -> bool:
    return left is right or (type(left) is type(right) and type(left) in _SIMPLE and bool(left == right))


def _alike_or_opened(now: Any, then: Any) -> bool:
    opened = then is None and type(now) not in _SIMPLE and not isinstance(now, list | tuple | dict | set | np.ndarray)
    return opened or _alike(now, then)


class Watch:
    """What a data set consists of, as far as it can be seen, and whether that has changed.

    Looks through attributes, short lists and dicts, transforms, closures, and the global names that `__getitem__`
    uses. What lies deeper, in C, on disk or in large containers is not seen.
    """

    def __init__(self, dataset: Any) -> None:
        self._places: list[_Seen] = []
        self._tensors: list[tuple[str, torch.Tensor, int]] = []
        self._streams: list[Stream] = []
        self._visited: dict[int, Any] = {}
        self._dataset = dataset
        self._sized = hasattr(type(dataset), "__len__")
        self._length = self._len()
        self._visit(dataset)

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The random generators that were found in the data set."""
        return tuple(self._streams)

    @property
    def length(self) -> int | None:
        """Items in the data set when this was made; None if it does not say."""
        return self._length

    def changed(self) -> str | None:
        """What is no longer as it was ("attribute level of Curriculum"); None if nothing is known to have changed."""
        for place in self._places:
            if place.changed():
                return place.what()
        for name, tensor, version in self._tensors:
            if tensor._version != version:
                return name
        return None if self._len() == self._length else "the number of items"

    def changed_by_item(self) -> str | None:
        """What an item just computed changed in the data set itself; what it changed elsewhere is taken as given."""
        for place in self._places:
            if place.changed():
                if place.of_data_set:
                    return place.what()
                place.refresh()
        return None

    def opened(self) -> str | None:
        """As `changed`, but what was None and is an object now (a file that was opened late) has not changed."""
        for place in self._places:
            now = list(place.read())
            same_keys = len(now) == len(place.values)
            if not same_keys or not all(map(_alike_or_opened, now, place.values)):
                return place.what()
        moved = [name for name, tensor, version in self._tensors if tensor._version != version]
        return moved[0] if moved else None if self._len() == self._length else "the number of items"

    def _len(self) -> int | None:
        if not self._sized:
            return None
        try:
            return len(self._dataset)
        except (TypeError, NotImplementedError):
            return None

    def _visit(self, root: Any) -> None:
        waiting = [(type(root).__name__, root, 0)]
        while waiting and len(self._places) < MAX_OBJECTS:
            name, value, depth = waiting.pop(0)
            if depth > MAX_DEPTH or id(value) in self._visited or type(value) in _SIMPLE:
                continue
            self._visited[id(value)] = value
            waiting.extend((child_name, child, depth + 1) for child_name, child in self._look(name, value))

    def _look(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        stream = _own_stream(name, value)
        if stream is not None:
            self._streams.append(stream)
        elif isinstance(value, torch.Tensor):
            if not value.is_inference():  # those count no versions
                self._tensors.append((f"the tensor {name}", value, value._version))
        elif isinstance(value, list | tuple | dict):
            yield from self._look_in_container(name, value)
        elif isinstance(value, types.FunctionType | types.MethodType | partial):
            yield from self._look_in_function(name, value)
        elif not isinstance(value, type | types.ModuleType | types.BuiltinFunctionType | np.ndarray):
            yield from self._look_in_object(name, value)

    def _look_in_container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if len(value) > MAX_CHILDREN:
            return
        if isinstance(value, dict):
            self._places.append(_Seen(name, value.values))
            yield from ((f"{name}[{key!r}]", child) for key, child in value.items())
            return
        if isinstance(value, list):
            self._places.append(_Seen(name, value.copy))
        yield from ((f"{name}[{position}]", child) for position, child in enumerate(value))

    def _look_in_object(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            of_data_set = value is self._dataset or isinstance(value, Dataset)
            if attributes:
                self._places.append(_Seen(f"an attribute of {name}", attributes.values, of_data_set, attributes.keys))
            yield from ((f"{name}.{key}", child) for key, child in attributes.items())
        for method in ("__getitem__", "__call__", "forward"):
            function = getattr(type(value), method, None)
            if isinstance(function, types.FunctionType):
                yield f"{name}.{method}", function

    def _look_in_function(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, types.MethodType):
            yield f"{name}.__self__", value.__self__
            value = value.__func__
        if isinstance(value, partial):
            yield f"{name}.func", value.func
            yield f"{name}.args", value.args
            yield f"{name}.keywords", value.keywords
        if isinstance(value, types.FunctionType):
            yield from self._look_in_code(name, value)

    def _look_in_code(self, name: str, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        if (function.__module__ or "").partition(".")[0] in ("torch", "torchvision", "torchaudio", "numpy"):
            return  # their globals are not settings of a script
        cells = function.__closure__ or ()
        if cells:
            self._places.append(_Seen(f"a variable around {name}", partial(contents, cells)))
        yield from ((f"{name} (closure)", value) for value in contents(cells))
        yield f"{name} (defaults)", function.__defaults__ or ()
        names = [key for key in global_names(function) if key in function.__globals__]
        if names:
            read = partial(_values, function.__globals__, names)
            self._places.append(_Seen(f"a global name used by {name}", read))
        for key in names:
            value = function.__globals__[key]
            if not isinstance(value, type | types.ModuleType):
                yield key, value


def contents(cells: tuple[types.CellType, ...]) -> list[Any]:
    """What the variables of a closure hold; one that is not bound (yet, or any more) counts as None."""
    values = []
    for cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def global_names(function: types.FunctionType) -> list[str]:
    """Global names that the function reads. (`co_names` has those of attributes too: `self.data` is no `data`.)"""
    code = dis.get_instructions(function)
    return sorted({str(step.argval) for step in code if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})


def _values(names: dict[str, Any], keys: list[str]) -> list[Any]:
    return [names.get(key) for key in keys]


def fetches_whole_batches(dataset: Any) -> bool:
    """True if the data set has a way of its own to fetch a batch, whose items might depend on one another."""
    if type(dataset) is torch.utils.data.Subset:
        return fetches_whole_batches(dataset.dataset)
    return bool(getattr(dataset, "__getitems__", None))


def fetch(dataset: Any, indices: Any) -> Any:
    """The items as a DataLoader fetches them: `torch.utils.data._utils.fetch._MapDatasetFetcher`."""
    whole = getattr(dataset, "__getitems__", None)
    if whole:
        return whole(indices)
    return [dataset[index] for index in cast(Iterable[Any], indices)]
