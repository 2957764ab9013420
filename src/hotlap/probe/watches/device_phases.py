"""`device`: the phases of some steps by the device's own clock."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hotlap import accelerator
from hotlap.levers.lever import Patch
from hotlap.probe.watches.watch import Watch

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Beyond so long no more steps than this.
_PATIENCE_S = 5.0
_FEWEST_STEPS = 4


class DevicePhases(Watch):
    """An event takes some microseconds of the host, at each end of each phase: too much for steps that are compared, so
    these steps are its own. Without a device there are none."""

    num_steps: ClassVar[int] = 17  # the first one is where the others begin

    def install(self, session: "Session", patch: Patch) -> None:
        """Nothing is hooked: the session's clock leaves the events."""
        self._session = session
        self._begun: float | None = None
        self._found: Mapping[str, Any] = {}

    def open(self) -> None:
        """On the stream on which the model trains."""
        if accelerator.in_use() is None:
            return
        devices = (p.device for p in self._session.parameters() if accelerator.on_device(p))
        device = next(devices, None)
        if device is not None:
            self._session.device_clock.open(self._session.clock, accelerator.lane(device))
            self._begun = time.perf_counter()

    def goes_on(self, num_steps: int) -> bool:
        """A few steps; of very long ones fewer."""
        if self._begun is None:
            return False
        return num_steps < _FEWEST_STEPS or time.perf_counter() - self._begun < _PATIENCE_S

    def close(self, num_steps: int) -> None:
        """The events are read: by now the device may still have work."""
        if self._begun is not None:
            self._found = self._session.device_clock.close(self._session.clock)

    def fields(self) -> Mapping[str, Any]:
        """`Run.device_phase_s`."""
        return self._found
