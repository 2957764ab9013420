"""What counts as a device, for watches of what goes to it and comes from it; tests have notions of their own."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hotlap.probe.evidence import cuda_in_use


@dataclass(frozen=True, slots=True, kw_only=True)
class Notion:
    """Answers about tensors. The host is everything that is not on the device."""

    in_use: Callable[[], bool]
    on_device: Callable[[torch.Tensor], bool]
    is_pinned: Callable[[torch.Tensor], bool]
    """Of a tensor on the host: its memory is page-locked, so that copies need not wait."""


def _on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.is_cuda


def _is_pinned(tensor: torch.Tensor) -> bool:
    return tensor.is_pinned()


CUDA = Notion(in_use=cuda_in_use, on_device=_on_cuda, is_pinned=_is_pinned)
