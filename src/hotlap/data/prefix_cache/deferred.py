"""The last steps of a pipeline, which make numbers of a picture's bytes: done for a whole batch, in one native pass, or
looked up for one picture.

Each number comes from one byte of its channel. So the script's own steps are asked once a batch what they make of each
of the 256 bytes, and the bytes of all pictures are looked up in that table.

Shape letters: B items of a batch, H rows, W columns and C channels of a picture.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch.utils.data import default_collate

from hotlap.data.item.codec import is_kind_of_picture, pixels_of, same, unmarked

_MODULES = frozenset(
    f"torchvision.transforms.{name}" for name in ("transforms", "v2._deprecated", "v2._misc", "v2._type_conversion")
)
_TO_TENSOR = frozenset({"ToTensor", "PILToTensor", "ToImage"})
_BYTE_BY_BYTE = frozenset({"ConvertImageDtype", "ToDtype", "Normalize", "ToPureTensor"})

# Of pictures of so many sizes one is kept each. Those of photographs are more, and too large for it to bring much.
_MOST_SIZES = 8


@final
@dataclass(frozen=True, slots=True)
class Deferred:
    """Stands for the result of a pipeline until the batch is made."""

    picture: Any
    """A `LazyPicture` that nobody else holds."""
    steps: Sequence[Callable[[Any], Any]]


@final
class LookedUp:
    """In the place of such steps: 28 x 28 pixels take a third of their time, with `Normalize` an eighth.

    Where the first picture of its size comes out otherwise, and for whatever else, the steps themselves are asked.
    """

    def __init__(self, steps: Sequence[Callable[[Any], Any]]) -> None:
        self._steps = steps
        self._known: dict[Any, tuple[Any, Any] | None] = {}
        """(mode, size) of pictures -> (table, what became of the first one); None: it cannot be looked up."""

    def __call__(self, value: Any) -> Any:
        """What the steps make of it."""
        kind = (value.mode, value.size) if is_kind_of_picture(type(value)) else None
        known = self._known.get(kind)
        if known is not None:
            return _looked_up(value, *known)
        made = in_turn(self._steps, value)
        if kind is not None and kind not in self._known and len(self._known) < _MOST_SIZES:
            self._known[kind] = self._tried(value, made)
        return made

    def _tried(self, image: Any, made: Any) -> tuple[Any, Any] | None:
        if image.mode not in ("L", "RGB"):
            return None
        from hotlap.data.item.pictures import of_all_bytes

        table, channels = unmarked(in_turn(self._steps, of_all_bytes(image.mode))), len(image.mode)
        if type(table) is not torch.Tensor or table.shape != (channels, 16, 16) or not isinstance(made, torch.Tensor):
            return None
        known = table.reshape(channels, 256).numpy(), made
        fits = made.dtype == table.dtype and made.shape == (channels, *image.size[::-1])
        return known if fits and same(_looked_up(image, *known), made) else None


def _looked_up(image: Any, table: Any, like: Any) -> Any:
    """The numbers of a plain image of PIL's, in memory laid out as `like`, and of its class. `table`: (C, 256) what
    bytes become."""
    width, height = image.size
    pixels = np.frombuffer(pixels_of(image), np.uint8).reshape(height, width, -1)
    made = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="cpu")
    for channel, (numbers, out) in enumerate(zip(table, made.numpy(), strict=True)):
        numbers.take(pixels[:, :, channel], out=out, mode="wrap")
    return made if type(like) is torch.Tensor else made.as_subclass(type(like))


def in_turn(steps: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    """What these steps make of it, one after the other."""
    for step in steps:
        value = _padded_crop(step, value) if _pads(step, value) else step(value)
    return value


def _pads(step: Any, value: Any) -> bool:
    """It is torchvision's `RandomCrop` that puts black around what is a `LazyPicture`."""
    if type(step).__name__ != "RandomCrop" or not hasattr(type(value), "padded") or _name(step) is None:
        return False
    black = step.padding_mode == "constant" and type(step.fill) is int and step.fill == 0
    return black and not step.pad_if_needed and type(step.padding) is int and step.padding > 0


def _padded_crop(step: Any, picture: Any) -> Any:
    """What it returns, from the draws that it makes: PIL would make an image of its own first."""
    padded = picture.padded(step.padding)
    top, left, height, width = step.get_params(padded, step.size)
    return padded.crop((left, top, left + width, top + height))


def deferred(value: Any, steps: Sequence[Callable[[Any], Any]]) -> Any:
    """What these steps make of it, later if it is a picture of bytes."""
    if is_kind_of_picture(value.__class__):
        from hotlap.data.item.pictures import as_lazy

        picture = as_lazy(value)
        if picture is not None:
            return Deferred(picture, steps)
    return in_turn(steps, value)


def made(result: Any) -> Any:
    """A result, by the script's own steps where it is deferred."""
    return in_turn(result.steps, result.picture) if type(result) is Deferred else result


def num_deferred(steps: Sequence[Any]) -> int:
    """How many of the last steps are torchvision's own that make each number from one byte, the first of which is given
    a picture; 0: they are others."""
    for number, step in enumerate(reversed(steps), 1):
        name = _name(step)
        if name not in _BYTE_BY_BYTE:
            return number if name in _TO_TENSOR else 0
    return 0


def _name(step: Any) -> str | None:
    """The name of a step of torchvision's own whose doing nobody has changed."""
    kind, own = type(step), vars(step) if hasattr(step, "__dict__") else {}
    changed = own.get("_forward_hooks") or own.get("_forward_pre_hooks") or "forward" in own
    return kind.__name__ if kind.__module__ in _MODULES and not changed else None


def batch_of(results: Sequence[Any], checked: dict[Any, bool]) -> Any:
    """What `default_collate` makes of these results, one of each item.

    `checked`: kinds of batches -> whether numbers come out as torch makes them, which is found out once for each.
    """
    numbers = _numbers(results)
    if numbers is None:
        return default_collate([*map(made, results)])
    # How a dimension of one lies in memory is torch's to say.
    kind = numbers.shape[1], *(length == 1 for length in numbers.shape), *map(type, results[0].steps)
    if checked.get(kind):
        return numbers
    expected = default_collate([*map(made, results)])
    if kind not in checked:
        checked[kind] = same(numbers, expected)
    return expected


def _numbers(results: Sequence[Any]) -> torch.Tensor | None:
    """(B, C, H, W) float32; None where only the script's own steps can tell, or would fail."""
    if {*map(type, results)} != {Deferred} or len({(*map(id, one.steps),) for one in results}) != 1:
        return None
    pictures, steps = [one.picture for one in results], results[0].steps
    if len({(picture.mode, picture.size) for picture in pictures}) != 1:
        return None
    from hotlap.data.item.pictures import as_numbers, of_all_bytes

    mode = pictures[0].mode
    table = default_collate([in_turn(steps, of_all_bytes(mode))] * 2)
    if type(table) is not torch.Tensor or table.dtype != torch.float32 or table.shape != (2, len(mode), 16, 16):
        return None
    return as_numbers(pictures, table)
