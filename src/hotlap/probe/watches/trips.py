"""`trips`: data that travel between host and device for nothing, or while the host waits, or too late to be read."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch

from hotlap import accelerator
from hotlap.probe.copy_tracker import CopyTracker
from hotlap.probe.guard import Function
from hotlap.probe.tally import Tally
from hotlap.probe.watches.watch import Watch
from hotlap.record import Phase


class Trips(Watch):
    """Follows every operator of a few steps; such steps are several times as long as others, and nothing is timed by
    them but the copies themselves.
    """

    num_steps: ClassVar[int] = 8
    patience_s: ClassVar[float] = 10.0
    fewest_steps: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__()
        self._tally = Tally()
        self._tracker: CopyTracker | None = None

    def open(self) -> None:
        """Nothing travels where there is no device."""
        if accelerator.in_use() is None:
            return
        tracker = CopyTracker(self._tally)
        tracker.is_loading = lambda: self.session.clock.phase() is Phase.INPUT
        self.put_on(tracker)
        self._tracker = tracker
        hears_batches = self.guarded(lambda iterator, batch: tracker.data(batch))
        self.session.script.on_batch.append(hears_batches)
        self.patch.on_undo(lambda: self.session.script.on_batch.remove(hears_batches))
        self._hook_readers(tracker)
        super().open()

    def goes_on(self, num_steps: int) -> bool:
        """Where there is anything to be seen."""
        self._tally.step = num_steps
        return self._tracker is not None and super().goes_on(num_steps)

    def close(self, num_steps: int) -> None:
        """Nobody is followed any more."""
        self._tally.step = num_steps
        super().close(num_steps)

    def fields(self) -> Mapping[str, Any]:
        """One sighting for each line and kind."""
        notes: tuple[str, ...] = ()
        if self._tracker is not None and self._tracker.failures:
            notes = (f"{self._tracker.failures} operators could not be followed in the search for needless copies.",)
        return {"sightings": self._tally.sightings(), "notes": notes}

    def _hook_readers(self, tracker: CopyTracker) -> None:
        """What reads or waits without an operator."""

        def before(owner: Any, name: str, told: Callable[..., None]) -> None:
            def telling(function: Function) -> Function:
                def wrapper(*args: Any, **kwargs: Any) -> Any:
                    told(*args[:1])
                    return function(*args, **kwargs)

                return wrapper

            self.hook(self.patch, owner, name, telling)

        for name in ("numpy", "tolist"):
            before(torch.Tensor, name, tracker.read)
        for owner, name, _ in accelerator.waits():
            for method in (name, "query"):
                if hasattr(owner, method):
                    before(owner, method, lambda *_: tracker.waited())
