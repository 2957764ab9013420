"""The random generators that an item could draw from: their states, and whether one has moved."""

import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

GENERATORS = (random.Random, np.random.RandomState, np.random.Generator, torch.Generator)


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


States = list[tuple[Stream, Any]]
"""Generators, and where they were."""

_GLOBAL_STREAMS = (
    Stream("random", random.getstate, random.setstate),
    Stream("numpy.random", np.random.get_state, np.random.set_state),
    Stream("torch", torch.default_generator.get_state, torch.default_generator.set_state),
)


def own_stream(name: str, generator: Any) -> Stream:
    """One of `GENERATORS` as a stream."""
    if isinstance(generator, random.Random):
        return Stream(name, generator.getstate, generator.setstate)
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        return Stream(name, lambda: bits.state, partial(setattr, bits, "state"))
    return Stream(name, generator.get_state, generator.set_state)


@dataclass(slots=True)
class Streams:
    """The three global generators and those found in the data set."""

    own: Sequence[Stream] = ()

    def states(self) -> States:
        """To be handed to `drawn` and `restore`."""
        return [(stream, stream.read()) for stream in (*_GLOBAL_STREAMS, *self.own)]

    def drawn(self, before: States) -> str | None:
        """Name of the first generator that moved since; None if none did."""
        for stream, state in before:
            if stream.fingerprint(stream.read()) != stream.fingerprint(state):
                return stream.name
        return None

    def restore(self, before: States) -> None:
        """Put every generator back to where it was."""
        for stream, state in before:
            stream.write(state)
