"""Memory at the ends of steps, thinned out evenly over the run."""

import time
from collections.abc import Mapping
from typing import Any

from hotlap import accelerator
from hotlap.probe.procfs import held_bytes
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import MemorySample

_MAX_SAMPLES = 512

# A look takes some tens of microseconds, on a device, where the allocator lists all its statistics for each figure,
# hundreds: the gap between two is so long that they take less than a thousandth of it. What counts is this thread's
# time on a core: a look in which others had that for 10 ms would put off the next one by 10 s, and hide all growth.
_GAP_S = 0.005
_MOST_SHARE = 1e-3


class Memory(Profiler):
    """Passive."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: list[MemorySample] = []
        self._gap_s = _GAP_S
        self._next_at = 0.0

    def step_ended(self, step: int) -> None:
        """A sample, where the last one is old enough."""
        now = time.perf_counter()
        if now < self._next_at:
            return
        begun_s = time.thread_time()
        rss_bytes, shared_bytes = held_bytes()
        self._samples.append(
            MemorySample(
                step=step,
                rss_bytes=rss_bytes,
                private_bytes=rss_bytes - shared_bytes,
                device_bytes=accelerator.allocated_bytes(),
            )
        )
        if len(self._samples) > _MAX_SAMPLES:
            self._samples = self._samples[::2]
            self._gap_s *= 2
        self._next_at = now + max(self._gap_s, (time.thread_time() - begun_s) / _MOST_SHARE)

    def fields(self) -> Mapping[str, Any]:
        """`Run.memory`."""
        return {"memory": tuple(self._samples)}
