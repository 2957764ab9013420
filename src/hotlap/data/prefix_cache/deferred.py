"""The last steps of a pipeline, which make numbers of a picture's bytes: done for a whole batch, in one native pass.

Each number comes from one byte of its channel. So the script's own steps are asked once a batch what they make of each
of the 256 bytes, and the pictures of the batch, resized and turned over by all threads, are looked up in that table.

Shape letters: B items of a batch, H rows, W columns and C channels of a picture.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from PIL import Image
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import collate, default_collate_fn_map

from hotlap.data.item_cache.columns import same_batch

_MODULES = frozenset(
    f"torchvision.transforms.{name}" for name in ("transforms", "v2._deprecated", "v2._meta", "v2._misc", "v2._type_conversion")
)
_TO_TENSOR = frozenset({"ToTensor", "PILToTensor", "ToImage"})
_BYTE_BY_BYTE = frozenset({"ConvertImageDtype", "ToDtype", "Normalize", "ToPureTensor"})


@final
@dataclass(frozen=True, slots=True)
class Deferred:
    """What stands for the result of a pipeline until the batch is made."""

    picture: Any
    steps: Sequence[Callable[[Any], Any]]

    def made(self) -> Any:
        """The result, by the script's own steps."""
        value = self.picture
        for step in self.steps:
            value = step(value)
        return value


def num_deferred(steps: Sequence[Any]) -> int:
    """How many of the last steps are torchvision's own that make each number from one byte, the first of which is given
    a picture; 0: they are others."""
    for number, step in enumerate(reversed(steps), 1):
        name = _name(step)
        if name in _TO_TENSOR:
            return number
        if name not in _BYTE_BY_BYTE:
            return 0
    return 0


def _name(step: Any) -> str | None:
    """The name of a step of torchvision's own whose doing nobody has changed."""
    kind, own = type(step), vars(step) if hasattr(step, "__dict__") else {}
    changed = own.get("_forward_hooks") or own.get("_forward_pre_hooks") or "forward" in own
    return kind.__name__ if kind.__module__ in _MODULES and not changed else None


def collated(items: list[Any], checked: dict[Any, bool]) -> Any:
    """What `default_collate` makes of these items, with results in the places of what is deferred.

    `checked`: kinds of batches -> whether they come out as torch makes them, which is found out once for each.
    """

    def batch(waiting: list[Deferred], **_: Any) -> Any:
        numbers = _numbers(waiting)
        if numbers is None:
            return default_collate([one.made() for one in waiting])
        case = tuple(numbers.shape), *map(type, waiting[0].steps)
        if case not in checked:
            checked[case] = same_batch(numbers, default_collate([one.made() for one in waiting]))
        return numbers if checked[case] else default_collate([one.made() for one in waiting])

    return collate(items, collate_fn_map={**default_collate_fn_map, Deferred: batch})


def _numbers(waiting: list[Deferred]) -> torch.Tensor | None:
    """(B, C, H, W); None where only the script's own steps can tell, or would fail."""
    from hotlap.data.item.pictures import LazyPicture, render

    pictures = [one.picture for one in waiting]
    kinds = {(type(picture), picture.mode, picture.size) for picture in pictures}
    if len(kinds) != 1 or type(pictures[0]) is not LazyPicture or len({(*map(id, one.steps),) for one in waiting}) != 1:
        return None
    (_, mode, size) = kinds.pop()
    num_channels = len(mode)
    samples = np.arange(256, dtype=np.uint8).reshape(16, 16)
    sample = Image.fromarray(samples if mode == "L" else np.stack([samples] * 3, axis=-1))
    like = default_collate([Deferred(sample, waiting[0].steps).made()] * 2)
    if type(like) is not torch.Tensor or like.dtype != torch.float32 or like.shape != (2, num_channels, 16, 16):
        return None
    table = like[0].reshape(num_channels, 256).contiguous()
    channels_last = not like.is_contiguous()
    made = torch.empty(
        (len(waiting), num_channels, size[1], size[0]),
        dtype=torch.float32,
        device="cpu",
        memory_format=torch.channels_last if channels_last else torch.contiguous_format,
    )
    render(pictures, table, made)
    return made
