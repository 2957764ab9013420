"""How many random numbers the script draws, by how they are distributed: where they are fewer, some are used again."""

import math
import random
from collections import Counter
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils import _device

from hotlap.levers.lever import Patch
from hotlap.probe.guard import Guard
from hotlap.probe.thread import TrainingThread
from hotlap.record.run import GENERATORS

_ORDERS = "orders"
# An order counts as one: it has a number for each item, however few are taken.
_DISTRIBUTIONS = {
    "uniform": ("rand", "rand_like", "uniform_", "uniform", "random_sample", "random"),
    "normal": ("randn", "randn_like", "normal", "normal_", "standard_normal", "gauss"),
    "integers": ("randint", "randint_like", "random_", "multinomial", "randrange", "choice"),
    "coins": ("bernoulli", "bernoulli_", "binomial"),
    "others": ("beta", "betavariate", "exponential", "exponential_", "gamma", "poisson"),
    _ORDERS: ("randperm", "permutation", "shuffle"),
    GENERATORS: ("default_rng",),
}


class RandomNumbers:
    """Counts those of this process, in whatever thread. What workers of a loader draw is not seen, nor what generators
    of NumPy and Python do that the script makes: these are counted themselves."""

    def __init__(self) -> None:
        self._drawn: Counter[str] = Counter()

    def install(self, patch: Patch, thread: TrainingThread, guard: Guard) -> None:
        """Count from now on."""
        _device._device_constructors()  # torch remembers which functions make tensors
        add = guard(self._add, "the number of random numbers")
        owners = (torch, torch.Tensor, np.random, random)
        functions = [
            *((kind, owner, name) for kind, names in _DISTRIBUTIONS.items() for name in names for owner in owners),
            *((GENERATORS, kind, "__init__") for kind in (np.random.RandomState, random.Random)),
        ]
        for kind, owner, name in functions:
            function = getattr(owner, name, None)
            if callable(function):
                told: Any = thread.telling(function, partial(add, kind), in_any=True)
                # So that it is pickled by its name: workers are given it, and what is saved may hold it.
                is_module = isinstance(owner, ModuleType)
                told.__module__ = owner.__name__ if is_module else owner.__module__
                told.__qualname__ = name if is_module else f"{owner.__qualname__}.{name}"
                patch.set(owner, name, told)
                if owner is torch:  # TorchScript looks for what it stands for
                    torch.jit._builtins._register_builtin(getattr(torch, name), f"aten::{name}")

    def _add(self, kind: str, result: Any, *_: Any, **__: Any) -> None:
        if torch._C._is_tracing():  # which would follow the size as well
            return
        # Of a fake tensor the shape may be a symbol.
        several = kind not in (_ORDERS, GENERATORS) and type(result) in (torch.Tensor, np.ndarray)
        self._drawn[kind] += math.prod(result.shape) if several else 1

    def take(self) -> dict[str, int]:
        """Since the last call."""
        found, self._drawn = self._drawn, Counter()
        return dict(found)
