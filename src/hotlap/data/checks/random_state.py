"""The random generators that an item could draw from: their states, and whether one has moved."""

import dis
import functools
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
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


class _SystemDraws(threading.local):
    """How often this thread has drawn from the operating system."""

    number = 0


_DRAWS = _SystemDraws()


def num_system_draws() -> int:
    """How often this thread has drawn from the operating system since the first call: by `os.urandom`, or by a
    generator that it made without a seed (`np.random.default_rng()`), which has no state to look at before."""
    _count_system_draws()
    return _DRAWS.number


@functools.cache
def _count_system_draws() -> None:
    bit_generator: Any = np.random.bit_generator
    for owner, name, counts in (
        (os, "urandom", lambda *_: True),
        (random, "_urandom", lambda *_: True),
        # `tempfile` makes one for names of files and locks, of which no item consists.
        (random.Random, "seed", lambda self, a=None, *_: a is None and "tempfile" not in _modules_of(sys._getframe(2))),
        # `RandomState(seed)` asks for it, and is seeded then.
        (bit_generator, "randbits", lambda *_: _calls_without_arguments(sys._getframe(2))),
    ):
        setattr(owner, name, _counted(getattr(owner, name), counts))


def _counted(function: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        number = _DRAWS.number + counts(*args, **kwargs)
        result = function(*args, **kwargs)
        _DRAWS.number = number  # whatever it has called
        return result

    return wrapper


def _modules_of(frame: FrameType) -> set[str]:
    """Of a frame and the one that called it."""
    return {str(one.f_globals.get("__name__")) for one in (frame, frame.f_back) if one is not None}


def _calls_without_arguments(frame: FrameType) -> bool:
    """What it calls now, which may be a class written in C, is given nothing."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[at]] in ("PRECALL", "CALL") and not code[at + 1]


_GLOBAL_STREAMS = (
    Stream("random", random.getstate, random.setstate),
    Stream("numpy.random", np.random.get_state, np.random.set_state),
    Stream("torch", torch.default_generator.get_state, torch.default_generator.set_state),
    # What was drawn cannot be put back.
    Stream("the operating system", num_system_draws, lambda state: None),
)


def own_stream(name: str, generator: Any) -> Stream | None:
    """One of `GENERATORS` as a stream; None for one without a state, which draws from the operating system."""
    if isinstance(generator, random.SystemRandom):
        return None
    if isinstance(generator, random.Random):
        return Stream(name, generator.getstate, generator.setstate)
    if isinstance(generator, np.random.Generator):
        bits: Any = generator.bit_generator
        return Stream(name, lambda: bits.state, partial(setattr, bits, "state"))
    return Stream(name, generator.get_state, generator.set_state)


@dataclass(slots=True)
class Streams:
    """The global generators, what the operating system gives, and those found in the data set."""

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
