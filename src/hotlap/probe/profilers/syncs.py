"""`syncs`: calls that make the host wait for the device, and copies that had no need to be, with line and cost.

A dispatch mode sees which operators wait, and how long each took. On CUDA torch itself tells of all that wait, as
warnings, in its synchronisation debug mode: a warning comes when the call from Python is over, so it belongs to what
was dispatched since the last one.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import torch

from hotlap import accelerator, cuda
from hotlap.probe.copy_tracker import COPIES, CopyTracker, copied
from hotlap.probe.event_counter import EventCounter, here
from hotlap.probe.guard import Function
from hotlap.probe.modes import name_of
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import Phase, SightingKind

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
    **COPIES,
}


class Syncs(Profiler):
    """Silent without a device: on the CPU nothing waits, and `.item()` costs nothing."""

    num_steps: ClassVar[int] = 8
    patience_s: ClassVar[float] = 10.0
    fewest_steps: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self._event_counter = EventCounter()
        self._durations: _Durations | None = None
        self._note: str | None = None
        self._explicit = False
        """Within a call that the script makes in order to wait."""

    def steps(self) -> Iterator[None]:
        """Have torch warn, and hear the warnings before anybody else does."""
        if accelerator.in_use() is None:
            return
        warns = cuda.in_use()
        before = cuda.sync_debug_mode() if warns else 0  # 0 off, 1 warns, 2 raises
        if before > 1:
            self._note = "The script lets torch raise at each wait for the device, so hotlap did not look for them."
            return
        durations = _Durations(self._event_counter, None if warns else self.guarded(self._saw))
        durations.is_loading = lambda: self.session.clock.phase() is Phase.INPUT
        self.put_on(durations)
        self._durations = durations
        self.hear(self.session.script.on_batch, lambda iterator, batch: durations.data(batch))
        # Those that wait for a stream or the whole device are no operators, and raise no warning.
        for owner, name, what in accelerator.waits():
            self.hook(self.patch, owner, name, partial(self._waiting, what))
        if warns:
            self._listen(before)
        for _ in self.paced():
            yield
            self._event_counter.end_step(counts=self.validated() is None)

    def fields(self) -> Mapping[str, Any]:
        """One sighting for each line, kind and call."""
        failures = 0 if self._durations is None else self._durations.failures
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
        if self._durations is not None and not self._explicit:
            self._saw(*self._durations.take())

    def _saw(self, what: str, cost_s: float | None) -> None:
        if not self._explicit:
            self._event_counter.add(SightingKind.SYNC, what, here(), cost_s=cost_s)


class _Durations(CopyTracker):
    """Knows also what was dispatched since the last warning, and how long that took on the host; or tells, where there
    is someone to be told, of each operator that waited."""

    def __init__(self, event_counter: EventCounter, told: Callable[[str, float], None] | None) -> None:
        super().__init__(event_counter)
        self._told = told
        self._since: list[tuple[str, float]] = []
        """(operator, seconds) since the last warning."""

    def saw(self, func: Any, args: Any, kwargs: Any, result: Any, seconds: float) -> None:
        """An operator was called."""
        super().saw(func, args, kwargs, result, seconds)
        name = name_of(func)
        if self._told is None:
            self._since.append((name, seconds))
        elif name in _WAITS and _waited(name, args, kwargs, result):
            self._told(_WAITS[name], seconds)

    def take(self) -> tuple[str, float | None]:
        """(call, seconds) that a warning is about. Several may come at once: the first one gets the time of all."""
        since, self._since = self._since, []
        waits = [(name, seconds) for name, seconds in since if name in _WAITS]
        if waits:
            return _WAITS[waits[-1][0]], sum(seconds for _, seconds in waits)
        return max(since, key=lambda one: one[1], default=("a waiting call", None))


def _waited(name: str, args: Any, kwargs: Any, result: Any) -> bool:
    """As torch warns on CUDA: values that come to the host, sizes that depend on values, copies that block."""
    if name in COPIES:
        copy = copied(name, args, kwargs, result)
        return copy is not None and not copy.non_blocking
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
    changed = getattr(warnings, "_filters_mutated", None)
    if changed is not None:
        changed()
