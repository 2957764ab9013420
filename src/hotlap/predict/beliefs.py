"""What is not known of a workload and of the machines around it: how far off each may be, in standard deviations."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from hotlap.predict.workload import Workload

# Half an 80% interval in standard deviations.
HALF = 1.2816
# Spread (standard deviation of the logarithm) of what is not known. For totals the sizes of operators are assumed.
MEMORY_SIGMA = 0.25
TOTALS_MEMORY_SIGMA = 0.45
# Seconds of host time to dispatch one operator (Python, autograd, launch) where nothing was timed.
HOST_S = 1.5e-5
# Of that; of what was timed beside the script (its own Python comes on top); and between two machines. One H200's host
# takes 2.7 times as long as was forecast from another machine (benchmarks/predict/host.py).
HOST_SIGMA = 0.8
MEASURED_HOST_SIGMA = 0.4
OTHER_HOST_SIGMA = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """How far each lies from the best guess, in standard deviations."""

    memory: float = 0.0
    """Bytes that really travel for each that operators read and write."""
    lanes: float = 0.0
    """Above 1: FP32 products run on lanes, where the precision leaves it open. Three of four scripts use TF32 in them:
    convolutions do unless it is switched off, matrix products in containers and in torch before 1.12."""
    host: float = 0.0
    """Host time of an operator."""
    other_host: float = 0.0
    """That of the target's host beside it."""
    bus: float = 0.0
    """Rate of the links between several GPUs."""

    def bytes_factor(self, workload: Workload) -> float:
        """On the bytes that travel."""
        return math.exp((TOTALS_MEMORY_SIGMA if workload.totals_only else MEMORY_SIGMA) * self.memory)

    def tf32(self, workload: Workload) -> bool:
        """Whether FP32 matrix work uses TF32 where the precision leaves it open."""
        return self.lanes <= 1 if workload.matmul_tf32 is None else workload.matmul_tf32

    def host_s(self, workload: Workload) -> float:
        """Seconds of host time for an operator, where the step was measured."""
        sigma = MEASURED_HOST_SIGMA if workload.host_s else HOST_SIGMA
        return (workload.host_s or HOST_S) * math.exp(sigma * self.host)

    def there_host_s(self, workload: Workload, timed_s: float | None) -> float:
        """The same beside the target; `timed_s`: what was timed there, None: nothing."""
        if timed_s is None:
            return self.host_s(workload) * math.exp(OTHER_HOST_SIGMA * self.other_host)
        return timed_s * math.exp(MEASURED_HOST_SIGMA * self.host)


BEST = Off()


def halves(log_of: Callable[[Off], float]) -> tuple[float, float]:
    """Half of the 80% interval of a logarithm, below and above its best guess: what each that is not known moves it by
    alone; causes that know nothing of each other add up in squares.

    A measured step does not narrow it: what explains that step best is no nearer to the truth on another device, and
    farther where nobody says whether TF32 is used (0.131 / 0.405 beside 0.108 / 0.305).
    """
    best = log_of(BEST)
    ends = [[log_of(replace(BEST, **{one.name: side})) - best for side in (-HALF, HALF)] for one in fields(Off)]
    return math.hypot(*(min(0.0, *end) for end in ends)), math.hypot(*(max(0.0, *end) for end in ends))
