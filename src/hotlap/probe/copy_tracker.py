"""Where data come from, and whether they had to travel: each operator is followed by its storages."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap import accelerator
from hotlap.predict.trace import is_view
from hotlap.probe.digests import tensors
from hotlap.probe.event_counter import EventCounter, Spot, here
from hotlap.probe.modes import ObserverMode, name_of
from hotlap.record import SightingKind

COPIES = {"aten::_to_copy": "Tensor.to", "aten::copy_": "Tensor.copy_"}
"""Operators that may copy between the host and the device, and the names by which scripts call them."""


class Copy(NamedTuple):
    """From the host to the device, or back."""

    source: torch.Tensor
    target: torch.Tensor
    non_blocking: bool
    """The host was not to wait."""


def copied(name: str, args: Any, kwargs: Any, result: Any) -> Copy | None:
    """What the operator has copied; None where nothing went from one side to the other."""
    if name not in COPIES:
        return None
    in_place = name == "aten::copy_"
    source, target = (args[1], args[0]) if in_place else (args[0], result)
    if accelerator.on_device(source) == accelerator.on_device(target):
        return None
    return Copy(source, target, bool(args[2] if in_place and len(args) > 2 else kwargs.get("non_blocking", False)))


class _From(Enum):
    CREATED = auto()
    """Made on the host out of nothing: `torch.randn`, `torch.zeros`, and what was computed from such alone."""
    DEVICE = auto()
    """Copied from the device, and what was computed from that on the host."""
    DATA = auto()
    """Anything else: a batch, or what the script held before."""


_NEEDLESS = {_From.CREATED: SightingKind.CREATED_AND_MOVED, _From.DEVICE: SightingKind.THERE_AND_BACK}


@dataclass(frozen=True, slots=True)
class _Origin:
    kind: _From
    what: str
    spot: Spot
    step: int
    cost_s: float


_DATA = _Origin(_From.DATA, "", Spot(), 0, 0.0)


class CopyTracker(ObserverMode):
    """Tells an EventCounter of needless and blocking copies."""

    def __init__(self, event_counter: EventCounter) -> None:
        super().__init__()
        self._event_counter = event_counter
        self.is_loading: Callable[[], bool] = lambda: False
        """The script draws a batch: what is made now are data."""
        self._known: dict[int, tuple[StorageWeakRef, _Origin]] = {}
        """By the storage's address, which the reference keeps from being given to another one."""

    def data(self, batch: Any) -> None:
        """A loader gave this."""
        for tensor in tensors(batch):
            self._remember(tensor, _DATA)

    def saw(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        """Follow it."""
        name = name_of(func)
        copy = copied(name, args, kwargs, result)
        if copy is not None:
            self._copied(COPIES[name], *copy, seconds)
            return
        if _views(func):
            return
        inputs, on_device = tensors((args, kwargs)), accelerator.on_device
        outputs = [tensor for tensor in tensors(result) if not on_device(tensor)]
        if outputs and not any(map(on_device, inputs)):
            self._made(name, inputs, outputs, seconds)

    def _copied(self, what: str, source: Any, target: Any, non_blocking: bool, seconds: float) -> None:
        spot = here()
        if accelerator.on_device(source):
            self._remember(target, _Origin(_From.DEVICE, what, spot, self._event_counter.step, seconds))
            return
        num_bytes = source.numel() * source.element_size()
        origin = self._origin(source)
        kind = _NEEDLESS.get(origin.kind)
        if kind is not None and origin.step == self._event_counter.step:
            detail = {"moved_line": spot.line, "moved_path": spot.path}
            cost_s = origin.cost_s + seconds
            self._event_counter.add(kind, origin.what, origin.spot, cost_s=cost_s, num_bytes=num_bytes, detail=detail)
        elif not (non_blocking and accelerator.is_pinned(source)):
            self._event_counter.add(SightingKind.BLOCKING_COPY, what, spot, cost_s=seconds, num_bytes=num_bytes)

    def _made(self, name: str, inputs: list[Any], outputs: list[Any], seconds: float) -> None:
        """On the host, out of what is on the host."""
        origins = [self._origin(tensor) for tensor in inputs]
        if not inputs or name == "aten::lift_fresh":
            # What wraps foreign memory (`torch.from_numpy`) cannot be resized: it holds the script's data.
            fresh = not self.is_loading() and outputs[0].untyped_storage().resizable()
            what = "torch.tensor" if name == "aten::lift_fresh" else name.replace("aten::", "torch.")
            origin = _Origin(_From.CREATED, what, here(), self._event_counter.step, seconds) if fresh else _DATA
        elif any(origin.kind is _From.DEVICE for origin in origins):
            origin = next(origin for origin in origins if origin.kind is _From.DEVICE)
        elif all(origin.kind is _From.CREATED for origin in origins):
            origin = origins[0]
        else:
            origin = _DATA
        for tensor in outputs:
            self._remember(tensor, origin)

    def _origin(self, tensor: torch.Tensor) -> _Origin:
        return self._known.get(tensor.untyped_storage()._cdata, (None, _DATA))[1]

    def _remember(self, tensor: torch.Tensor, origin: _Origin) -> None:
        storage = tensor.untyped_storage()
        if origin is _DATA:
            self._known.pop(storage._cdata, None)
        else:
            self._known[storage._cdata] = (StorageWeakRef(storage), origin)  # type: ignore[no-untyped-call]


@cache
def _views(func: Any) -> bool:
    """`lift_fresh` is declared as one, but it brings a new tensor."""
    return name_of(func) != "aten::lift_fresh" and is_view(func)
