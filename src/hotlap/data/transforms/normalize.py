"""The end of a pipeline that turns bytes into numbers, done for a whole batch with the same result, bit for bit.

torchvision's `ToTensor`, `ConvertImageDtype`, `ToDtype` and `Normalize` make each number from one byte and constants of
its channel, by single operations whose result IEEE 754 prescribes: conversion, division, multiplication, subtraction.
So it does not matter how many numbers are computed at once.

Shape letters: B items of a batch, H rows, W columns and C channels of a picture.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from hotlap.data.item.codec import is_picture, is_plain_tensor

# Modes of a PIL image with one byte for each channel of a pixel.
_MODES = frozenset({"L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr"})

_MODULES = frozenset(
    f"torchvision.transforms.{name}"
    for name in ("transforms", "v2._misc", "v2._type_conversion", "v2._deprecated", "v2._meta")
)

# Steps that make a tensor of a picture; which kinds of values they take is said by `bytes_of`.
_PICTURES = frozenset({"ToTensor", "PILToTensor", "ToImage"})

# A part of a batch that stays in the second level of the processor's cache (1 to 2 MB on servers) from one operation to
# the next, with room for the bytes that it is made of.
_PART_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class DeferredSteps:
    """What the last steps of a pipeline do to a byte."""

    num_head: int
    """Steps in front of it."""
    takes: str | None
    """The step that makes a tensor of what comes out of those ("ToTensor", ...); None if that is a tensor already."""
    operations: tuple[tuple[str, Any], ...]
    """("divide" or "multiply", a number), ("normalize", (means, standard deviations)): done one after the other."""

    def apply(self, bytes_: torch.Tensor, out: torch.Tensor, *, channels_last: bool) -> torch.Tensor:
        """(B, C, H, W) numbers in `out`, from (B, C, H, W) bytes, or from (B, H, W, C) with `channels_last`."""
        source = bytes_.permute(0, 3, 1, 2) if channels_last else bytes_
        steps = [_operation(name, setting) for name, setting in self.operations]
        num_rows = max(1, _PART_BYTES // max(1, out[:1].nbytes))
        with torch.no_grad():
            for part, given in zip(torch.split(out, num_rows), torch.split(source, num_rows), strict=True):
                part.copy_(given)
                for step in steps:
                    step(part)
        return out


def deferred_steps(steps: Sequence[Any]) -> DeferredSteps | None:
    """The longest end of a pipeline that can be done late; None if it has none."""
    try:
        return _deferred_steps(steps)
    except (AttributeError, TypeError, ValueError):  # settings of another kind than torchvision's own
        return None


def _deferred_steps(steps: Sequence[Any]) -> DeferredSteps | None:
    place, operations = len(steps), list[tuple[str, Any]]()
    while place:
        place -= 1
        name = _name(steps[place])
        if name == "Normalize":
            operations.insert(0, ("normalize", (_numbers(steps[place].mean), _numbers(steps[place].std))))
        elif name != "ToPureTensor":
            break
    else:
        return None
    begin = _conversion(steps[place])
    if begin is None:
        return None
    takes = "ToTensor" if _name(steps[place]) == "ToTensor" else None
    if takes is None and place and _name(steps[place - 1]) in _PICTURES - {"ToTensor"}:
        place -= 1
        takes = _name(steps[place])
    return DeferredSteps(place, takes, (*begin, *operations))


def converts(step: Any) -> bool:
    """True for a step that makes numbers of a picture, and may stand alone."""
    return _name(step) == "ToTensor"


def bytes_of(value: Any, takes: str | None) -> tuple[torch.Tensor, bool] | None:
    """(its bytes, whether channels come last), if that is what the step `takes` would make a tensor of; else None."""
    if is_picture(value) or type(value).__module__.startswith("PIL."):
        if takes is None or value.mode not in _MODES:
            return None
        return torch.from_numpy(np.array(value)).view(value.size[1], value.size[0], -1), True
    if isinstance(value, np.ndarray):
        fits = takes in ("ToTensor", "ToImage") and type(value) is np.ndarray and value.dtype == np.uint8
        if not fits or value.ndim not in (2, 3) or min(value.strides) <= 0:
            return None
        rows = torch.from_numpy(value if value.flags.writeable else value.copy())
        return (rows[:, :, None] if rows.ndim == 2 else rows), True
    return _of_tensor(value) if takes in (None, "ToImage") else None


def _name(step: Any) -> str | None:
    """The name of a step of torchvision's own whose doing nobody has changed."""
    kind = type(step)
    hooked = any(getattr(step, name, None) for name in ("_forward_hooks", "_forward_pre_hooks"))
    own = "forward" in vars(step) or "__call__" in vars(step) if hasattr(step, "__dict__") else True
    return kind.__name__ if kind.__module__ in _MODULES and not hooked and not own else None


def _conversion(step: Any) -> tuple[tuple[str, Any], ...] | None:
    """What the step does to a byte; None if it is none that makes 32-bit numbers of bytes."""
    name = _name(step)
    if name == "ToTensor":
        return (("divide", 255.0),)
    if name not in ("ConvertImageDtype", "ToDtype") or step.dtype is not torch.float32:
        return None
    if name == "ToDtype" and not step.scale:
        return ()
    # The first version divides by 255, the second multiplies by 1 / 255, which is rounded.
    second = ".v2." in type(step).__module__
    return (("multiply", 1.0 / 255) if second else ("divide", 255.0),)


def _numbers(values: Any) -> Any:
    """Means or deviations as plain numbers: one, or a tuple of them."""
    listed = values.tolist() if isinstance(values, torch.Tensor | np.ndarray) else values
    return tuple(map(float, listed)) if isinstance(listed, list | tuple) else float(listed)


def _operation(name: str, setting: Any) -> Callable[[torch.Tensor], object]:
    if name == "multiply":
        return lambda part: part.mul_(setting)
    if name == "divide":
        return lambda part: part.div_(setting)
    means, deviations = (torch.tensor(values) for values in setting)
    means, deviations = (one.view(-1, 1, 1) if one.ndim else one for one in (means, deviations))
    return lambda part: part.sub_(means).div_(deviations)


def _of_tensor(value: Any) -> tuple[torch.Tensor, bool] | None:
    marked = type(value).__module__ == "torchvision.tv_tensors._image"
    plain = value.as_subclass(torch.Tensor) if marked else value
    if not is_plain_tensor(plain) or plain.dtype != torch.uint8 or plain.ndim != 3:
        return None
    # A conversion keeps the order of dimensions in memory, but lays out anew what is a part of a larger picture.
    like = torch.empty_like(plain)
    return (plain if like.stride() == plain.stride() else like.copy_(plain)), False
