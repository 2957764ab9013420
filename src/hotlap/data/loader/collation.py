"""Whole batches in place of lists of items, handed unchanged through torch's own `default_collate`."""

import sys
from types import FrameType
from typing import Any

import torch
from torch.utils.data import Subset, default_collate
from torch.utils.data._utils.collate import default_collate_fn_map
from torch.utils.data._utils.fetch import _MapDatasetFetcher


class Batch:
    """A collated batch on its way through `default_collate`, which hands it on as it is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _unwrap(batch: list[Batch], *, collate_fn_map: Any = None) -> Any:
    return batch[0].value


# The extension point that torch documents for `default_collate`: a collate function for a type of its own.
# https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.default_collate
default_collate_fn_map.setdefault(Batch, _unwrap)
# If the script registers more, or other, functions later, torch is left to collate true items.
_KNOWN_MAP = dict(default_collate_fn_map)

_FETCH_CODE = _MapDatasetFetcher.fetch.__code__
_SUBSET_CODE = Subset.__getitems__.__code__


def torch_collates() -> bool:
    """True if `default_collate` does what torch wrote: no function of the script's, no default device."""
    return bool(default_collate_fn_map == _KNOWN_MAP and torch._C._len_torch_function_stack() == 0)


def goes_to_default_collate() -> bool:
    """True if what the calling `__getitems__` returns is handed to `default_collate` and to nothing else.

    Any other reader (a collate function of the script, another data set) gets a plain list of plain items.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is _SUBSET_CODE:
        frame = frame.f_back
    return (
        frame is not None
        and frame.f_code is _FETCH_CODE
        and frame.f_locals["self"].collate_fn is default_collate
        and torch_collates()
    )
