"""How models are compiled: when they are first called in a trial, which is watched until it is over, and as source."""

import inspect
import weakref
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from hotlap.levers.lever import Lever, Patch
from hotlap.levers.models import cannot_name, named_models
from hotlap.record import Run
from hotlap.source import Edit, InsertBefore

# Calls in training without a new graph after which nothing more is expected. Longer than the usual warm-up, so that
# compiling is timed as the one-time cost that it is.
_SETTLED_CALLS = 30

# A graph for each of two sizes (the last batch of an epoch) in training and in a validation is nothing to speak of.
_MANY_GRAPHS = 4

# TorchInductor has a backend for these (torch/_inductor/codegen).
_COMPILED_FOR = ("cpu", "cuda", "xpu", "mps")

_PREFIX = "torch.compile: "

# `compile()` of a module whose forward is torch's own (nn.Sequential) does nothing without it: Dynamo leaves frames of
# torch's out, and sees no other (pytorch/pytorch#150915). It does so since 2.8 (#150209); under the public name,
# torch.compiler.config, only since 2.10 (read in both releases).
_WRAP = "torch._dynamo.config.wrap_top_frame = True"
_WRAPS_SINCE = (2, 8)


def compile_edits(run: Run, arguments: str) -> Iterator[Edit]:
    """`model.compile(arguments)` in front of what makes each optimizer."""
    for model in named_models(run):
        yield from model.naming
        if model.forward.detail.get("torch_forward"):
            yield InsertBefore(site=model.before, code=_WRAP, imports="import torch")
        yield InsertBefore(site=model.before, code=f"{model.name}.compile({arguments})")


def cannot_compile(lever: Lever, run: Run) -> str | None:
    """Why no model can be compiled where the script names it; None where one can."""
    from hotlap.machine.cuda import version

    if run.device_type not in (None, *_COMPILED_FOR):
        return f"torch.compile writes no kernels for {run.device_type}."
    torch = version(run.versions.get("torch")) or _WRAPS_SINCE
    if torch < _WRAPS_SINCE and any(
        site.detail.get("torch_forward") and site.detail.get("parameters") for site in run.call_sites
    ):
        return "The model is one of torch's own modules, whose compile() does nothing before torch 2.8."
    return cannot_name(lever, run)


def compile_when_called(patch: Patch, settings: Mapping[str, Any], *, device: str | None = None) -> None:
    """CHILD: `model.compile(**settings)` at the first call of each model with parameters while gradients are on.

    Args:
        patch: What it is undone through.
        settings: As torch.compile has them.
        device: Only models whose parameters are on such a device.
    """
    import torch
    from torch._dynamo.utils import counters

    call = torch.nn.Module.__call__
    compiled: weakref.WeakSet[Any] = weakref.WeakSet()
    inside = [False]
    calls, graphs, last = [0], [0], [0]

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it becomes that method
        if inside[0] or torch.compiler.is_compiling() or not (self.training and torch.is_grad_enabled()):
            return call(self, *args, **kwargs)
        if self not in compiled and _is_on(self, device):
            compiled.add(self)
            _compile(self, settings)
        inside[0] = True
        try:
            return call(self, *args, **kwargs)
        finally:
            inside[0] = False
            calls[0] += 1
            if counters["stats"]["unique_graphs"] != graphs[0]:
                graphs[0], last[0] = counters["stats"]["unique_graphs"], calls[0]

    def undo() -> None:
        for module in compiled:
            module._compiled_call_impl = None

    def settled() -> bool:
        _tell(patch, counters)
        return calls[0] - last[0] >= _SETTLED_CALLS or not compiled

    patch.set(torch.nn.Module, "__call__", __call__)
    patch.settled.append(settled)
    patch.on_undo(undo)


def has_torch_forward(module: Any) -> bool:
    """What it does when called is written in torch itself: nn.Sequential, nn.Linear."""
    # As it stands in the class: TorchScript's modules have something there that cannot be read.
    forward = inspect.getattr_static(type(module), "forward", None)
    return str(getattr(forward, "__module__", "")).startswith("torch.nn.modules.")


def _compile(module: Any, settings: Mapping[str, Any]) -> None:
    """As `compile_edits` have it written."""
    import torch._dynamo.config

    config: Any = torch._dynamo.config
    wraps = has_torch_forward(module) and hasattr(config, "wrap_top_frame")  # without it each layer by itself
    with config.patch(wrap_top_frame=True) if wraps else nullcontext():
        module.compile(**settings)


def _is_on(module: Any, device: str | None) -> bool:
    """It has parameters, and they are there."""
    parameter = next(module.parameters(), None)
    return parameter is not None and device in (None, parameter.device.type)


def _tell(patch: Patch, counters: Mapping[str, Mapping[str, int]]) -> None:
    """A model in pieces, or compiled again and again, gains less than it could: say so; the newest count stands."""
    breaks = counters.get("graph_break", {})
    graphs = counters.get("stats", {}).get("unique_graphs", 0)
    found = []
    if breaks:
        reason = next(iter(breaks)).strip().splitlines()[0][:200]
        found.append(f"{_PREFIX}the model leaves the compiled code at {len(breaks)} places, first because: {reason}")
    if graphs > _MANY_GRAPHS * (len(breaks) + 1):
        found.append(f"{_PREFIX}{graphs} graphs were compiled; sizes or settings that change have it done again.")
    patch.notes[:] = [note for note in patch.notes if not note.startswith(_PREFIX)] + found
