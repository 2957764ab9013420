"""What a trace holds of its steps, on one device and the threads that train: all that is told of it begins here."""

from functools import cached_property

import numpy as np

from hotlap.trace import host, steps
from hotlap.trace.host import Host
from hotlap.trace.nesting import Callers
from hotlap.trace.steps import Steps
from hotlap.trace.table import Mask, Trace
from hotlap.trace.timeline import Timeline, of_device, timeline


class Seen:
    """Seconds from the first event of the trace; N events, S steps."""

    def __init__(self, trace: Trace, told: Steps, device: str | None) -> None:
        """`device`: as the trace numbers it; None where nothing ran on any."""
        self.trace, self.steps, self.device = trace, told, device
        self.rows: Mask = np.zeros(len(trace.start), bool) if device is None else of_device(trace, device)
        """(N,) events of that device that count."""
        self.edges = told.edges if device is None else steps.on_device(trace, told, self.rows)
        """(S + 1,) of the steps by the device's clock."""
        self.count = len(self.edges) - 1
        """S."""
        self.threads = steps.training_threads(trace, told)
        """Lanes of those that train."""
        self.who = Callers(trace, self.threads)

    @cached_property
    def host(self) -> Host:
        """What these threads did."""
        return host.look(self.trace, self.threads)

    @cached_property
    def timeline(self) -> Timeline:
        """What the device did, if there is one."""
        return timeline(self.trace, self.rows)
