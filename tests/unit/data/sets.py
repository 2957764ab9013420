"""Small data sets for the tests of the loaders, and what is compared."""

import random
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from hotlap.data.item.codec import same


class Pictures(Dataset[Any]):
    """`build(number)` is the item; a new object each time."""

    def __init__(self, num_items: int = 50, build: Callable[[int], Any] | None = None) -> None:
        self.num_items = num_items
        self.scale = 1.0
        self.build = build

    def __len__(self) -> int:
        return self.num_items

    def __getitem__(self, index: Any) -> Any:
        if not -self.num_items <= index < self.num_items:
            raise IndexError(index)
        number = int(index)
        if self.build is not None:
            return self.build(number)
        return torch.full((1, 4, 4), float(number)) * self.scale, number % 7


class Counting(Pictures):
    """Notes which items were computed, where nobody looks."""

    computed: list[int]

    def __getitem__(self, index: Any) -> Any:
        sys.modules[__name__].COMPUTED.append(int(index))
        return super().__getitem__(index)


COMPUTED: list[int] = [-1] * 100
"""Where nobody looks: what is found through a name of `sys` is none that an item's code has."""


def states() -> tuple[Any, ...]:
    """Of all global random generators, comparable."""
    kind, keys, *rest = np.random.get_state()
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest, torch.get_rng_state().numpy().tobytes()


def seed(value: int = 0) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def equal(left: Any, right: Any) -> bool:
    """True if two batches (or items) are equal in structure, types, dtypes, bytes, and strides of a copy."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, np.ndarray):
        return bool(
            left.dtype == right.dtype
            and left.shape == right.shape
            and left.copy(order="K").strides == right.copy(order="K").strides
            and left.flags.writeable == right.flags.writeable
            and left.tobytes() == right.tobytes()
        )
    if not isinstance(left, torch.Tensor):
        return repr(left) == repr(right) if isinstance(left, float) else bool(left == right)
    copied = left.clone(), right.clone()
    return copied[0].stride() == copied[1].stride() and same(*copied)


def epochs(dataset: Any, *, num_epochs: int = 3, seed_value: int = 0, **settings: Any) -> list[tuple[Any, Any]]:
    """(batch, states of the generators after it) of some epochs."""
    seed(seed_value)
    settings = {"batch_size": 8, "shuffle": True, **settings}
    loader = DataLoader(dataset, **settings)
    return [(batch, states()) for _ in range(num_epochs) for batch in loader]


def assert_same_epochs(left: Iterable[tuple[Any, Any]], right: Iterable[tuple[Any, Any]]) -> None:
    for number, ((batch, after), (other, other_after)) in enumerate(zip(left, right, strict=True)):
        assert equal(batch, other), f"batch {number}: {batch} is not {other}"
        assert after == other_after, f"random states differ after batch {number}"


Pair = namedtuple("Pair", ["left", "right"])


def _takes_numpys_bool() -> bool:
    """Old torch does not, beside new numpy: no batch can be made of them then, hotlap or not."""
    try:
        torch.as_tensor([np.bool_(True)])
    except TypeError:
        return False
    return True


class Marked(torch.Tensor):
    """As `torchvision.tv_tensors.Image`: what is made of one is a plain tensor."""

    __module__ = "torchvision.tv_tensors._image"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            made = func(*args, **kwargs or {})
        return made.as_subclass(cls) if func is torch.Tensor.clone else made


def _marked(number: int) -> Any:
    return BUILDS["picture"](number).as_subclass(Marked), number


NUMPYS_BOOL: Any = np.bool_ if _takes_numpys_bool() else np.int8

BUILDS: dict[str, Callable[[int], Any]] = {
    "tensor": lambda i: torch.full((3,), float(i)),
    "label": lambda i: i,
    "float": lambda i: i / 3,
    "nan": lambda i: float("nan") if i % 2 else -0.0,
    "bool": lambda i: i % 2 == 0,
    "text": lambda i: f"item {i}",
    "bytes": lambda i: b"%d" % i,
    "pair": lambda i: (torch.full((1, 5, 5), float(i)), i),
    "texts": lambda i: (f"{i}", [b"x", i], {"name": f"n{i}", "none": (f"{i}",)}),
    "dict": lambda i: {"b": torch.tensor(i), "a": np.float32(i), "list": [i, 2.5]},
    "ordered": lambda i: OrderedDict(x=i, y=np.full((2, 2), i)),
    "named": lambda i: Pair(torch.tensor([i]), Pair(i, "x")),
    "empty": lambda i: (i, (), [], {}),
    "array": lambda i: (np.full((2, 3), i, dtype=np.int16), np.asfortranarray(np.arange(6.0).reshape(2, 3) + i)),
    "scalars": lambda i: (np.float64(i), np.float16(i), NUMPYS_BOOL(i % 2), np.uint8(i)),
    "dtypes": lambda i: (torch.tensor([i], dtype=torch.bfloat16), torch.tensor([i + 1j]), torch.tensor(i % 2 == 0)),
    "channels last": lambda i: (torch.arange(60.0) + i).view(4, 5, 3).permute(2, 0, 1),
    "transposed": lambda i: (torch.arange(12.0) + i).view(4, 3).T,
    "strided": lambda i: (torch.arange(12.0) + i)[::2],
    "expanded": lambda i: (torch.arange(4.0) + i).view(1, 2, 2).expand(3, 2, 2),
    "picture": lambda i: ((torch.arange(300) + i) % 256).to(torch.uint8).view(3, 10, 10).to(torch.float32).div(255),
    "picture, channels last": lambda i: ((torch.arange(300.0) + i) % 256).view(10, 10, 3).permute(2, 0, 1).div(255),
    "marked": _marked,
    "no elements": lambda i: (torch.empty(0, 3), i),
}
"""Items of every kind that is kept by column: number -> item."""
