"""What an item could depend on: generators that it draws from, names that its code reads, the way it is fetched."""

import dis
import pickle
import random
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np
import torch


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


def own_stream(name: str, generator: Any) -> Stream | None:
    """The generator as a stream; None if it is none."""
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


def cell_contents(cells: tuple[types.CellType, ...]) -> list[Any]:
    """What the variables of a closure hold; one that is not bound (yet, or any more) counts as None."""
    values = []
    for cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and that of the functions and comprehensions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@lru_cache(maxsize=1024)
def global_names(code: types.CodeType) -> list[str]:
    """Global names that it reads. (`co_names` has those of attributes too: `self.data` is no `data`.)"""
    steps = (step for part in _codes(code) for step in dis.get_instructions(part))
    return sorted({str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})


@lru_cache(maxsize=1024)
def attribute_names(code: types.CodeType) -> list[str]:
    """Names that it may read as attributes."""
    return sorted({name for part in _codes(code) for name in part.co_names})


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
