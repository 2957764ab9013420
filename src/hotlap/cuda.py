"""What only CUDA (and ROCm under its name) has: captured graphs, and the mode that tells of synchronising calls."""

import warnings

import torch

SYNC_WARNING = "called a synchronizing CUDA operation"
"""In each warning of the debug mode (c10/cuda/CUDAFunctions.cpp, warn_or_error_on_sync)."""

Graph = torch.cuda.CUDAGraph
"""All captured graphs come by its methods: torch.cuda.graph, make_graphed_callables and torch.compile use them."""


def in_use() -> bool:
    """The script has started CUDA."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def has_context(index: int) -> bool:
    """The device was used by this process."""
    return bool(torch._C._cuda_hasPrimaryContext(index))  # type: ignore[attr-defined] # a build with CUDA has it


def sync_debug_mode() -> int:
    """0: silent. 1: a warning for each call that makes the host wait. 2: an error."""
    return int(torch.cuda.get_sync_debug_mode()) if in_use() else 0


def set_sync_debug_mode(mode: int) -> None:
    """As `sync_debug_mode` numbers them."""
    with warnings.catch_warnings():
        # torch tells that it is a prototype.
        warnings.simplefilter("ignore")
        torch.cuda.set_sync_debug_mode(mode)


def detaches_profiler() -> bool:
    """CUPTI can be taken off when a profiler stops. Kernels are launched 10 to 20% more slowly while it is on
    (pytorch/pytorch#146604); with captured graphs that crashed before CUDA 12.6."""
    return tuple(map(int, (torch.version.cuda or "0").split("."))) >= (12, 6)
