"""`device`: the phases of some steps by the device's own clock."""

from collections.abc import Mapping
from typing import Any, ClassVar

from hotlap import accelerator
from hotlap.probe.watches.watch import Watch


class DevicePhases(Watch):
    """An event takes some microseconds of the host, at each end of each phase: too much for steps that are compared, so
    these steps are its own. Without a device there are none."""

    num_steps: ClassVar[int] = 17  # the first one is where the others begin
    patience_s: ClassVar[float] = 5.0
    fewest_steps: ClassVar[int] = 4

    def __init__(self) -> None:
        super().__init__()
        self._is_open = False
        self._found: Mapping[str, Any] = {}

    def open(self) -> None:
        """On the stream on which the model trains."""
        if accelerator.in_use() is None:
            return
        device = self.session.facts.device()
        if device.type != "cpu":
            self.session.device_clock.open(self.session.clock, accelerator.lane(device))
            self._is_open = True
            super().open()

    def goes_on(self, num_steps: int) -> bool:
        """Where the model is on a device."""
        return self._is_open and super().goes_on(num_steps)

    def close(self, num_steps: int) -> None:
        """The events are read: by now the device may still have work."""
        if self._is_open:
            self._found = self.session.device_clock.close(self.session.clock)

    def fields(self) -> Mapping[str, Any]:
        """`Run.device_phase_s`."""
        return self._found
