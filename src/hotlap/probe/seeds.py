"""Other seeds for a script that sets its own."""

import functools
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

from hotlap.levers.lever import Patch


def shift(offset: int, patch: Patch) -> None:
    """`offset` is added to each seed."""

    def shifted(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
            return function(seed + offset if isinstance(seed, int) else seed, *args, **kwargs)

        return wrapper

    patch.set(torch, "manual_seed", shifted(torch.manual_seed))
    patch.set(random, "seed", shifted(random.seed))
    if "numpy" in sys.modules:
        import numpy as np

        patch.set(np.random, "seed", shifted(np.random.seed))
        patch.set(np.random, "default_rng", shifted(np.random.default_rng))

    manual_seed = torch.Generator.manual_seed

    class Generator(torch.Generator):
        def manual_seed(self, seed: int) -> torch.Generator:
            return manual_seed(self, seed + offset)

    patch.set(torch, "Generator", Generator)
