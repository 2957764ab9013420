"""The last steps of a pipeline, which make numbers of a picture's bytes: done for a whole batch, in one native pass.

Each number comes from one byte of its channel. So the script's own steps are asked once a batch what they make of each
of the 256 bytes, and the bytes of all pictures are looked up in that table.

Shape letters: B items of a batch, H rows, W columns and C channels of a picture.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch.utils.data import default_collate

from hotlap.data.item.codec import is_kind_of_picture, same

_MODULES = frozenset(
    f"torchvision.transforms.{name}" for name in ("transforms", "v2._deprecated", "v2._misc", "v2._type_conversion")
)
_TO_TENSOR = frozenset({"ToTensor", "PILToTensor", "ToImage"})
_BYTE_BY_BYTE = frozenset({"ConvertImageDtype", "ToDtype", "Normalize", "ToPureTensor"})


@final
@dataclass(frozen=True, slots=True)
class Deferred:
    """Stands for the result of a pipeline until the batch is made."""

    picture: Any
    """A `LazyPicture` that nobody else holds."""
    steps: Sequence[Callable[[Any], Any]]


def in_turn(steps: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    """What these steps make of it, one after the other."""
    for step in steps:
        value = step(value)
    return value


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
