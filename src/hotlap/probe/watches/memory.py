"""Memory at the ends of steps, thinned out evenly over the run."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from hotlap import accelerator
from hotlap.probe.watches.watch import Watch
from hotlap.record import MemorySample

_MAX_SAMPLES = 512

# A look takes 2 to 4 us; so often, it is less than a thousandth of the time. On a device, where the allocator lists all
# its statistics for each figure, it takes hundreds: the gap is then as many times longer. What counts is this thread's
# time on a core: a look in which others had that for 10 ms would put off the next one by 10 s, and hide all growth.
_GAP_S = 0.005
_MOST_SHARE = 1e-3


class Memory(Watch):
    """Passive."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: list[MemorySample] = []
        self._gap_s = _GAP_S
        self._next_at = 0.0
        self._statm: BinaryIO | None = None
        self._page = os.sysconf("SC_PAGE_SIZE")

    def step_ended(self, step: int) -> None:
        """A sample, where the last one is old enough."""
        now = time.perf_counter()
        if now < self._next_at:
            return
        begun_s = time.thread_time()
        if self._statm is None:
            # Only now: the process that trains may be a fork of the one that imported torch.
            self._statm = Path("/proc/self/statm").open("rb", buffering=0)  # noqa: SIM115 - it is read again and again
        self._statm.seek(0)
        _, resident, of_files, *_ = self._statm.read(200).split()
        self._samples.append(
            MemorySample(
                step=step,
                rss_bytes=int(resident) * self._page,
                private_bytes=(int(resident) - int(of_files)) * self._page,
                device_bytes=accelerator.allocated_bytes(),
            )
        )
        if len(self._samples) > _MAX_SAMPLES:
            self._samples = self._samples[::2]
            self._gap_s *= 2
        self._next_at = now + max(self._gap_s, (time.thread_time() - begun_s) / _MOST_SHARE)

    def close(self, num_steps: int) -> None:
        """Nothing more is read."""
        if self._statm is not None:
            self._statm.close()
            self._statm = None

    def fields(self) -> Mapping[str, Any]:
        """`Run.memory`."""
        self.close(0)
        return {"memory": tuple(self._samples)}
