"""`syncs`: calls that make the host wait for the device, and copies to it that block, with line and cost.

A dispatch mode sees which operators wait, and how long each took. On CUDA torch itself tells of all that wait, as
warnings, in its synchronisation debug mode: a warning comes when the call from Python is over, so it belongs to what
was dispatched since the last one.
"""

import time
import warnings
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, ClassVar

import torch

from hotlap import accelerator, cuda
from hotlap.probe.event_counter import EventCounter, here
from hotlap.probe.guard import Function
from hotlap.probe.modes import ObserverMode, name_of
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import SightingKind

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

_Copy = tuple[torch.Tensor, bool]
"""(source, the host was not to wait): from the host to the device, or back."""


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
        self._since: list[tuple[str, float]] = []
        """(operator, seconds) since the last warning."""

    def steps(self) -> Generator[None]:
        """Have torch warn, and hear the warnings before anybody else does."""
        if accelerator.in_use() is None:
            return
        self._warns = cuda.in_use()
        before = cuda.sync_debug_mode() if self._warns else 0  # 0 off, 1 warns, 2 raises
        if before > 1:
            self._note = "The script lets torch raise at each wait for the device, so hotlap did not look for them."
            return
        self.put_on(self._mode)
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
            what, cost_s = self._take()
            self._event_counter.add(SightingKind.SYNC, what, here(), cost_s=cost_s)

    def _see(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        name = name_of(func)
        copy = _copied(name, args, kwargs, result)
        if copy is not None:
            self._note_copy(_COPIES[name], copy, seconds)
        if self._warns:
            self._since.append((name, seconds))
        elif not self._explicit and name in _WAITS and _waited(name, args, copy):
            self._event_counter.add(SightingKind.SYNC, _WAITS[name], here(), cost_s=seconds)

    def _note_copy(self, what: str, copy: _Copy, seconds: float) -> None:
        source, non_blocking = copy
        if accelerator.on_device(source) or (non_blocking and accelerator.is_pinned(source)):
            return
        num_bytes = source.numel() * source.element_size()
        self._event_counter.add(SightingKind.BLOCKING_COPY, what, here(), cost_s=seconds, num_bytes=num_bytes)

    def _take(self) -> tuple[str, float | None]:
        """(call, seconds) that a warning is about. Several may come at once: the first one gets the time of all."""
        since, self._since = self._since, []
        waits = [(name, seconds) for name, seconds in since if name in _WAITS]
        if waits:
            return _WAITS[waits[-1][0]], sum(seconds for _, seconds in waits)
        return max(since, key=lambda one: one[1], default=("a waiting call", None))


def _copied(name: str, args: Any, kwargs: Any, result: Any) -> _Copy | None:
    """What the operator has copied; None where nothing went from one side to the other."""
    if name not in _COPIES:
        return None
    in_place = name == "aten::copy_"
    source, target = (args[1], args[0]) if in_place else (args[0], result)
    if accelerator.on_device(source) == accelerator.on_device(target):
        return None
    return source, bool(args[2] if in_place and len(args) > 2 else kwargs.get("non_blocking", False))


def _waited(name: str, args: Any, copy: _Copy | None) -> bool:
    """As torch warns on CUDA: values that come to the host, sizes that depend on values, copies that block."""
    if name in _COPIES:
        return copy is not None and not copy[1]
    if name in ("aten::index", "aten::index_put_"):
        masks = (index for index in args[1] if index is not None and index.dtype in (torch.bool, torch.uint8))
        return any(map(accelerator.on_device, masks))
    return accelerator.on_device(args[0])


def _set_back(mode: int) -> None:
    if cuda.sync_debug_mode() == 1:  # else the script has set another one meanwhile
        cuda.set_sync_debug_mode(mode)


def _remove_filter(one: object) -> None:
    # The list itself stays: the script may have put filters of its own into it.
    if one in warnings.filters:
        warnings.filters.remove(one)  # type: ignore[attr-defined]
    warnings._filters_mutated()  # type: ignore[attr-defined]
