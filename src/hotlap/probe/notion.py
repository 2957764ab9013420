"""What counts as a device, for watches of what goes to it and comes from it; tests have notions of their own."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hotlap import accelerator


@dataclass(frozen=True, slots=True, kw_only=True)
class Notion:
    """Answers about tensors. The host is everything that is not on the device."""

    in_use: Callable[[], bool]
    on_device: Callable[[torch.Tensor], bool]
    is_pinned: Callable[[torch.Tensor], bool]
    """Of a tensor on the host: its memory is page-locked, so that copies need not wait."""


DEVICE = Notion(
    in_use=lambda: accelerator.in_use() is not None,
    on_device=accelerator.on_device,
    is_pinned=accelerator.is_pinned,
)
