"""Other seeds for a script that sets its own, and the states of the generators that it makes for itself."""

import functools
import itertools
import random
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from types import ModuleType
from typing import Any

import numpy as np
import torch

from hotlap.data.checks.random_state import GENERATORS, own_stream
from hotlap.levers.lever import Patch
from hotlap.probe.digests import rng_digest
from hotlap.probe.sites import outwards

# What functions that set a seed call their first argument.
_SEED = ("seed", "a")

# From a variable of the script's to a generator: a loader, its data set, and that one's own.
_DEPTH = 3


class _OfBase(type(torch.Generator)):  # type: ignore[misc] # `type`, or a class of torch's own
    """Of a class in its base's place: what was made of that is one of its own, as the global generators are. Not so of
    classes that a script derives from it."""

    def __instancecheck__(cls, one: Any) -> bool:
        base = cls.__base__
        return super().__instancecheck__(one) if isinstance(base, _OfBase) else isinstance(one, base)


def shift(offset: int, patch: Patch) -> Callable[[], Mapping[int, torch.Generator]]:
    """`offset` is added to each seed from now on; behind the largest comes 0. Returns what tells torch's generators
    that were made since and are there still, by number."""

    def shifted(function: Callable[..., Any], place: int = 0, *, bits: int = 64) -> Callable[..., Any]:
        def moved(seed: Any) -> Any:
            return (int(seed) + offset) % 2**bits if offset and isinstance(seed, Integral) else seed

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            named = {name: moved(value) if name in _SEED else value for name, value in kwargs.items()}
            return function(*args[:place], *map(moved, args[place : place + 1]), *args[place + 1 :], **named)

        return wrapper

    patch.set(torch, "manual_seed", shifted(torch.manual_seed))
    patch.set(random, "seed", shifted(random.seed))
    patch.set(random.Random, "seed", shifted(random.Random.seed, 1))
    patch.set(np.random, "seed", shifted(np.random.seed, bits=32))
    patch.set(np.random, "default_rng", shifted(np.random.default_rng))

    class RandomState(np.random.RandomState, metaclass=_OfBase):
        __init__ = shifted(np.random.RandomState.__init__, 1, bits=32)
        seed = shifted(np.random.RandomState.seed, 1, bits=32)

    patch.set(np.random, "RandomState", RandomState)
    made: dict[int, weakref.ref[torch.Generator]] = {}
    number = itertools.count()

    class Generator(torch.Generator, metaclass=_OfBase):
        manual_seed = shifted(torch.Generator.manual_seed, 1)

        def __init__(self, *_args: Any, **_kwargs: Any) -> None:
            key = next(number)
            made[key] = weakref.ref(self, lambda _: made.pop(key, None))

    patch.set(torch, "Generator", Generator)
    return lambda: {key: one for key, known in list(made.items()) if (one := known()) is not None}


def generators() -> list[Any]:
    """All that what the script draws can come from, but for the global ones: those in the variables of the functions
    under way, in what these hold and so on."""
    found: dict[int, Any] = {}
    named = ((one, str(one.f_globals.get("__name__"))) for one in outwards(sys._getframe()))
    frames = (one for one, name in named if name.partition(".")[0] not in ("hotlap", "torch"))
    # By address: functions of a module share its variables, which are those of its own frame as well.
    variables = {id(one): one for frame in frames for one in (frame.f_locals, frame.f_globals)}
    for one in variables.values():
        _look(list(one.values()), _DEPTH, set(), found)
    return list(found.values())


def sources(own: Iterable[Any]) -> str:
    """Digests of the states of the global generators and of the script's `own`."""
    return rng_digest() + "".join(sorted(map(_state, own)))


def _state(generator: Any) -> str:
    stream = own_stream("", generator)
    return "" if stream is None else str(stream.fingerprint(stream.read()))


def _look(values: Iterable[Any], depth: int, known: set[int], found: dict[int, Any]) -> None:
    for value in values:
        kind = type(value)
        if id(value) in known or kind.__module__ == "builtins" or issubclass(kind, type | ModuleType):
            continue
        known.add(id(value))
        if isinstance(value, GENERATORS):
            found[id(value)] = value
        elif depth > 1 and kind.__dictoffset__:
            _look(list(object.__getattribute__(value, "__dict__").values()), depth - 1, known, found)
