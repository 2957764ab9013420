"""How many random numbers the script draws, by how they are distributed: where they are fewer, some are used again."""

import functools
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.compiler import is_compiling
from torch.utils import _device

from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.guard import Guard

# Of torch, its tensors, NumPy and Python. An order counts as one: it has a number for each item, however few are taken.
_OWNERS = (torch, torch.Tensor, np.random, random)
_DISTRIBUTIONS = {
    "uniform": ("rand", "rand_like", "uniform_", "uniform", "random_sample", "random"),
    "normal": ("randn", "randn_like", "normal", "normal_", "standard_normal", "gauss"),
    "integers": ("randint", "randint_like", "random_", "multinomial", "randrange"),
    "coins": ("bernoulli", "bernoulli_", "binomial"),
    "orders": ("randperm", "permutation", "shuffle"),
}


class RandomNumbers:
    """Counts those of this process, in whatever thread: what workers of a loader draw is not seen."""

    def __init__(self) -> None:
        self._drawn: Counter[str] = Counter()

    def install(self, patch: Patch, guard: Guard) -> None:
        """Count from now on."""
        _device._device_constructors()  # torch remembers which functions make tensors
        add = guard(self._add, "the number of random numbers")
        named = ((kind, name) for kind, names in _DISTRIBUTIONS.items() for name in names)
        for kind, owner, name in ((kind, owner, name) for kind, name in named for owner in _OWNERS):
            function = getattr(owner, name, None)
            if callable(function):
                patch.set(owner, name, _counted(function, kind, add))
                if owner is torch:  # TorchScript looks for what it stands for
                    torch.jit._builtins._register_builtin(getattr(torch, name), f"aten::{name}")

    def _add(self, kind: str, result: Any) -> None:
        if kind == "orders":
            self._drawn[kind] += 1
        elif isinstance(result, torch.Tensor):
            self._drawn[kind] += result.numel()
        elif isinstance(result, np.ndarray | float | int):  # no proxy of a function that is traced
            self._drawn[kind] += int(np.size(result))

    def take(self) -> dict[str, int]:
        """Since the last call."""
        found, self._drawn = self._drawn, Counter()
        return dict(found)


def _counted(function: Callable[..., Any], kind: str, add: Callable[[str, Any], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        # Within a compiled function there must be nothing that Dynamo cannot trace. And the probe draws for itself.
        if not (unseen.compiles and is_compiling()):
            caller = str(sys._getframe(1).f_globals.get("__name__"))
            if not caller.startswith("hotlap.probe."):
                add(kind, result)
        return result

    return counted
