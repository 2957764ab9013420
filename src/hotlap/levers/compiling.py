"""CHILD: models are compiled when they are first called for training, and it is watched until that is over."""

import weakref
from collections.abc import Mapping
from typing import Any

from hotlap.levers.lever import Patch

# Calls in training without a new graph after which nothing more is expected. Longer than the usual warm-up, so that
# compiling is timed as the one-time cost that it is.
_SETTLED_CALLS = 30

# A graph for each of two sizes (the last batch of an epoch) in training and in a validation is nothing to speak of.
_MANY_GRAPHS = 4

_PREFIX = "torch.compile: "


def compile_when_called(patch: Patch, settings: Mapping[str, Any], *, device: str | None = None) -> None:
    """`model.compile(**settings)` at the first call of each model with parameters while gradients are on.

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
            self.compile(**settings)
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
