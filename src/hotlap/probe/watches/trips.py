"""`trips`: data that travel between host and device for nothing, or while the host waits, or too late to be read."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from hotlap import accelerator
from hotlap.levers.lever import Patch
from hotlap.probe import modes
from hotlap.probe.guard import Function
from hotlap.probe.journeys import Journeys
from hotlap.probe.tally import Tally
from hotlap.probe.watches.watch import Watch
from hotlap.record import Phase

if TYPE_CHECKING:
    from hotlap.probe.session import Session

_PATIENCE_S = 10.0
_FEWEST_STEPS = 2


class Trips(Watch):
    """Follows every operator of a few steps; such steps are several times as long as others, and nothing is timed by
    them but the copies themselves.
    """

    num_steps: ClassVar[int] = 8

    def __init__(self) -> None:
        self._tally = Tally()
        self._journeys: Journeys | None = None
        self._patch = Patch()
        self._begun = 0.0

    def install(self, session: "Session", patch: Patch) -> None:
        """Nothing is hooked until the window opens."""
        self._session = session

    def open(self) -> None:
        """Nothing travels where there is no device."""
        if accelerator.in_use() is None:
            return
        journeys = Journeys(self._tally)
        journeys.is_loading = lambda: self._session.clock.phase() is Phase.INPUT
        modes.put_on(journeys)
        self._journeys = journeys
        self._hears_batches = self.guarded(self._batch)
        self._session.on_batch.append(self._hears_batches)
        self._hook(journeys)
        self._begun = time.perf_counter()

    def goes_on(self, num_steps: int) -> bool:
        """A few steps; of very long ones only two."""
        self._tally.step = num_steps
        late = time.perf_counter() - self._begun > _PATIENCE_S
        return self._journeys is not None and not (late and num_steps >= _FEWEST_STEPS)

    def forked(self) -> None:
        """A worker uses no device."""
        if self._journeys is not None:
            modes.take_off(self._journeys)

    def close(self, num_steps: int) -> None:
        """Take everything off again."""
        self._tally.step = num_steps
        self._patch.undo()
        if self._journeys is not None:
            modes.take_off(self._journeys)
            self._session.on_batch.remove(self._hears_batches)

    def fields(self) -> Mapping[str, Any]:
        """One sighting for each line and kind."""
        notes: tuple[str, ...] = ()
        if self._journeys is not None and self._journeys.failures:
            notes = (f"{self._journeys.failures} operators could not be followed in the search for needless copies.",)
        return {"sightings": self._tally.sightings(), "notes": notes}

    def _batch(self, iterator: Any, batch: Any) -> None:
        if self._journeys is not None:
            self._journeys.data(batch)

    def _hook(self, journeys: Journeys) -> None:
        """What reads or waits without an operator."""

        def before(owner: Any, name: str, told: Callable[..., None]) -> None:
            def telling(function: Function) -> Function:
                def wrapper(*args: Any, **kwargs: Any) -> Any:
                    told(*args[:1])
                    return function(*args, **kwargs)

                return wrapper

            self._patch.set(owner, name, self.around(getattr(owner, name), telling))

        for name in ("numpy", "tolist"):
            before(torch.Tensor, name, journeys.read)
        for owner, name, _ in accelerator.waits():
            for method in (name, "query"):
                if hasattr(owner, method):
                    before(owner, method, lambda *_: journeys.waited())
