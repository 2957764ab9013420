"""Transforms built like torchvision's, for tests that must run without it."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class Compose:
    """As in torchvision.transforms: one value through all."""

    def __init__(self, transforms: list[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        for transform in self.transforms:
            value = transform(value)
        return value


class Jointly:
    """As in torchvision.transforms.v2: one or several values through all."""

    def __init__(self, transforms: list[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def __call__(self, *inputs: Any) -> Any:
        several = len(inputs) > 1
        for transform in self.transforms:
            outputs = transform(*inputs)
            inputs = outputs if several else (outputs,)
        return inputs if several else inputs[0]


Jointly.__name__ = "Compose"


class Slow:
    """Costly, and always the same."""

    def __call__(self, value: Any) -> Any:
        for _ in range(30):
            value = value + 0.5
        return value


class Flip:
    def __call__(self, value: Any) -> Any:
        return value.flip(-1) if float(torch.rand(())) < 0.5 else value


class Noise:
    """Draws from all three generators, and writes to what it is handed."""

    def __call__(self, value: Any) -> Any:
        return value.mul_(random.random()).add_(float(np.random.rand())).add_(torch.rand_like(value))


class FlipBoth:
    def __call__(self, value: Any, target: Any) -> Any:
        if float(torch.rand(())) < 0.5:
            return value.flip(-1), -target
        return value, target


class SlowBoth:
    def __call__(self, value: Any, target: Any) -> Any:
        return Slow()(value), target * 2
