"""`syncs`: calls that make the host wait for the device, and copies that had no need to be, with line and cost.

A dispatch mode sees which operators wait, and how long each took. On CUDA torch itself tells of all that wait, as
warnings, in its synchronisation debug mode: a warning comes when the call from Python is over, so it belongs to what
was dispatched since the last one. Where data come from, and whether they had to travel, their storages tell.
"""

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hotlap import accelerator, cuda
from hotlap.predict.trace import is_view
from hotlap.probe.digests import tensors
from hotlap.probe.event_counter import EventCounter, Spot, here
from hotlap.probe.guard import Function
from hotlap.probe.modes import ObserverMode, name_of
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import Phase, SightingKind

# Operators that may copy between the host and the device, and the names by which scripts call them.
_COPIES = {"aten::_to_copy": "Tensor.to", "aten::copy_": "Tensor.copy_"}

# Operators that wait for the device, and the names by which scripts call them.
_WAITS = {
    "aten::_local_scalar_dense": "Tensor.item",
    "aten::nonzero": "torch.nonzero",
    "aten::masked_select": "torch.masked_select",
    "aten::index": "indexing with a mask",
    "aten::index_put_": "assignment with a mask",
    "aten::_unique2": "torch.unique",
    "aten::unique_consecutive": "torch.unique_consecutive",
    "aten::repeat_interleave": "torch.repeat_interleave",
    "aten::equal": "torch.equal",
    **_COPIES,
}

_Copy = tuple[torch.Tensor, torch.Tensor, bool]
"""(source, target, the host was not to wait): from the host to the device, or back."""


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


class Syncs(Profiler):
    """Silent without a device: on the CPU nothing waits, and `.item()` costs nothing."""

    num_steps: ClassVar[int] = 8
    patience_s: ClassVar[float] = 10.0
    fewest_steps: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self._event_counter = EventCounter()
        self._mode = ObserverMode(self._see)
        self._note: str | None = None
        self._warns = False
        """torch tells of each wait, as a warning."""
        self._explicit = False
        """Within a call that the script makes in order to wait."""
        self._origins: dict[StorageWeakRef, _Origin] = {}
        """Of what is no data. (A reference keeps the address from being that of another storage.)"""
        self._since: list[tuple[str, float]] = []
        """(operator, seconds) since the last warning."""

    def steps(self) -> Iterator[None]:
        """Have torch warn, and hear the warnings before anybody else does."""
        if accelerator.in_use() is None:
            return
        self._warns = cuda.in_use()
        before = cuda.sync_debug_mode() if self._warns else 0  # 0 off, 1 warns, 2 raises
        if before > 1:
            self._note = "The script lets torch raise at each wait for the device, so hotlap did not look for them."
            return
        self.put_on(self._mode)
        self.hear(self.session.script.on_batch, lambda iterator, batch: self._remember(tensors(batch), _DATA))
        # Those that wait for a stream or the whole device are no operators, and raise no warning.
        for owner, name, what in accelerator.waits():
            self.hook(self.patch, owner, name, partial(self._waiting, what))
        if self._warns:
            self._listen(before)
        for _ in self.paced():
            yield
            self._event_counter.end_step(counts=self.validated() is None)

    def fields(self) -> Mapping[str, Any]:
        """One sighting for each line, kind and call."""
        failures = self._mode.failures
        note = f"{failures} operators could not be followed on the device." if failures else self._note
        return {"sightings": self._event_counter.sightings(), "notes": (note,) if note else ()}

    def _listen(self, mode: int) -> None:
        """`mode`: torch's, as the script has set it."""
        heard, show = self.guarded(self._heard), warnings.showwarning

        def showwarning(message: Any, category: Any, filename: str, lineno: int, *args: Any, **kwargs: Any) -> None:
            if cuda.SYNC_WARNING in str(message):
                heard()
            else:
                show(message, category, filename, lineno, *args, **kwargs)

        # Without ours in front, one that is shown once a line, or never, or raised, would hide the rest.
        warnings.filterwarnings("always", message=f".*{cuda.SYNC_WARNING}")
        self.patch.on_undo(partial(_remove_filter, warnings.filters[0]))
        self.patch.set(warnings, "showwarning", showwarning)
        self.patch.on_undo(partial(_set_back, mode))
        cuda.set_sync_debug_mode(1)

    def _waiting(self, what: str, function: Function, *args: Any, **kwargs: Any) -> Any:
        if self._explicit:
            return function(*args, **kwargs)
        self._explicit = True
        begun = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self._explicit = False
            self._event_counter.add(SightingKind.SYNC, what, here(), cost_s=time.perf_counter() - begun)

    def _heard(self) -> None:
        if not self._explicit:
            self._waited_for(*self._take())

    def _waited_for(self, what: str, cost_s: float | None) -> None:
        self._event_counter.add(SightingKind.SYNC, what, here(), cost_s=cost_s)

    def _remember(self, made: list[torch.Tensor], origin: _Origin) -> None:
        for tensor in made:
            self._origins.pop(_storage(tensor), None)
            if origin is not _DATA:
                self._origins[_storage(tensor)] = origin

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        name = name_of(func)
        copy = _copied(name, args, kwargs, result)
        if copy is not None:
            self._note_copy(_COPIES[name], copy, seconds)
        elif not _views(func):
            self._note_made(name, tensors((args, kwargs)), tensors(result), seconds)
        if self._warns:
            self._since.append((name, seconds))
        elif not self._explicit and name in _WAITS and _waited(name, args, copy):
            self._waited_for(_WAITS[name], seconds)

    def _note_copy(self, what: str, copy: _Copy, seconds: float) -> None:
        (source, target, non_blocking), spot = copy, here()
        if accelerator.on_device(source):
            self._remember([target], _Origin(_From.DEVICE, what, spot, self._event_counter.step, seconds))
            return
        num_bytes = source.numel() * source.element_size()
        origin = self._origin(source)
        kind = _NEEDLESS.get(origin.kind)
        if kind is not None and origin.step == self._event_counter.step:
            cost_s = origin.cost_s + seconds
            self._event_counter.add(kind, origin.what, origin.spot, cost_s=cost_s, num_bytes=num_bytes)
        elif not (non_blocking and accelerator.is_pinned(source)):
            self._event_counter.add(SightingKind.BLOCKING_COPY, what, spot, cost_s=seconds, num_bytes=num_bytes)

    def _note_made(self, name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], seconds: float) -> None:
        """On the host, out of what is on the host."""
        outputs = [tensor for tensor in outputs if not accelerator.on_device(tensor)]
        if not outputs or any(map(accelerator.on_device, inputs)):
            return
        origins = [self._origin(tensor) for tensor in inputs]
        if not inputs or name == "aten::lift_fresh":
            # What wraps foreign memory (`torch.from_numpy`) cannot be resized: it holds the script's data.
            fresh = self.session.clock.phase() is not Phase.INPUT and outputs[0].untyped_storage().resizable()
            what = "torch.tensor" if name == "aten::lift_fresh" else name.replace("aten::", "torch.")
            origin = _Origin(_From.CREATED, what, here(), self._event_counter.step, seconds) if fresh else _DATA
        elif any(origin.kind is _From.DEVICE for origin in origins):
            origin = next(origin for origin in origins if origin.kind is _From.DEVICE)
        else:
            origin = origins[0] if all(origin.kind is _From.CREATED for origin in origins) else _DATA
        self._remember(outputs, origin)

    def _origin(self, tensor: torch.Tensor) -> _Origin:
        return self._origins.get(_storage(tensor), _DATA)

    def _take(self) -> tuple[str, float | None]:
        """(call, seconds) that a warning is about. Several may come at once: the first one gets the time of all."""
        since, self._since = self._since, []
        waits = [(name, seconds) for name, seconds in since if name in _WAITS]
        if waits:
            return _WAITS[waits[-1][0]], sum(seconds for _, seconds in waits)
        return max(since, key=lambda one: one[1], default=("a waiting call", None))


def _storage(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def _copied(name: str, args: Any, kwargs: Any, result: Any) -> _Copy | None:
    """What the operator has copied; None where nothing went from one side to the other."""
    if name not in _COPIES:
        return None
    in_place = name == "aten::copy_"
    source, target = (args[1], args[0]) if in_place else (args[0], result)
    if accelerator.on_device(source) == accelerator.on_device(target):
        return None
    return source, target, bool(args[2] if in_place and len(args) > 2 else kwargs.get("non_blocking", False))


def _waited(name: str, args: Any, copy: _Copy | None) -> bool:
    """As torch warns on CUDA: values that come to the host, sizes that depend on values, copies that block."""
    if name in _COPIES:
        return copy is not None and not copy[2]
    if name in ("aten::index", "aten::index_put_"):
        masks = (index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8))
        return any(map(accelerator.on_device, masks))
    return accelerator.on_device(args[0])


@cache
def _views(func: Any) -> bool:
    """`lift_fresh` is declared as one, but it brings a new tensor."""
    return name_of(func) != "aten::lift_fresh" and is_view(func)


def _set_back(mode: int) -> None:
    if cuda.sync_debug_mode() == 1:  # else the script has set another one meanwhile
        cuda.set_sync_debug_mode(mode)


def _remove_filter(one: object) -> None:
    # The list itself stays: the script may have put filters of its own into it.
    if one in warnings.filters:
        warnings.filters.remove(one)  # type: ignore[attr-defined]
    warnings._filters_mutated()  # type: ignore[attr-defined]
