"""What only CUDA (and ROCm under its name) has: captured graphs, and the mode that tells of synchronising calls."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

SYNC_WARNING = "called a synchronizing CUDA operation"
"""In each warning of the debug mode (c10/cuda/CUDAFunctions.cpp, warn_or_error_on_sync)."""


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


def follow_graphs(
    put: Callable[[type, str, Any], None],
    *,
    begins: Callable[[Any], None],
    ends: Callable[[], None],
    replay: Callable[[Any, Any], None],
) -> None:
    """`begins(graph)` comes before a capture, `ends()` after it, and `replay(run, graph)` in place of each `run()`.

    All graphs come by here: torch.cuda.graph, make_graphed_callables and torch.compile use these methods.
    """
    capture_begin, capture_end = torch.cuda.CUDAGraph.capture_begin, torch.cuda.CUDAGraph.capture_end
    run = torch.cuda.CUDAGraph.replay

    @functools.wraps(capture_begin)
    def beginning(graph: Any, *args: Any, **kwargs: Any) -> None:
        begins(graph)
        capture_begin(graph, *args, **kwargs)

    @functools.wraps(capture_end)
    def ending(graph: Any) -> None:
        try:
            capture_end(graph)
        finally:
            ends()

    @functools.wraps(run)
    def replaying(graph: Any) -> None:
        replay(functools.partial(run, graph), graph)

    for name, method in (("capture_begin", beginning), ("capture_end", ending), ("replay", replaying)):
        put(torch.cuda.CUDAGraph, name, method)
