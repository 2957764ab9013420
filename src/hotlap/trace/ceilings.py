"""What could be gained at best, by a trace: each step without what the device spent on one thing."""

import math
from collections.abc import Iterator

import numpy as np
from scipy.special import stdtrit

from hotlap.record import Ceiling, Interval, Phase, Run

# Below it a ratio has no interval worth the name.
_FEWEST_STEPS = 3
# What is left of a step must be at least this part of it, and what is saved worth a line.
_LEAST_LEFT, _LEAST_SAVED = 0.01, 0.01

_FREE = {
    Phase.INPUT: ("input", "no wait for a batch"),
    Phase.COMMUNICATION: ("communication", "no wait for other processes and for data on their way"),
    Phase.TRANSFER: ("transfers", "copies only beside kernels"),
    Phase.OTHER: ("host", "no time in the script's own Python while the device idles"),
    Phase.SYNC: ("sync", "no wait of the host for the device"),
    Phase.OPTIMIZER: ("optimizer", "no time in optimizer steps"),
}


def ceilings(run: Run) -> tuple[Ceiling, ...]:
    """Highest first; none of fewer than three steps. The interval covers what varies from step to step of the trace."""
    return tuple(sorted(_each(run), key=lambda ceiling: -ceiling.speedup.mid))


def _each(run: Run) -> Iterator[Ceiling]:
    steps = np.array(run.step_s)
    if len(steps) < _FEWEST_STEPS or steps.min() <= 0:
        return
    for phase, (name, idealised) in _FREE.items():
        saved = np.array(run.phase_s.get(phase) or np.zeros(len(steps)))
        share = float(saved.sum() / steps.sum())
        if not _LEAST_SAVED <= share <= 1 - _LEAST_LEFT:
            continue
        spread = float(np.std(saved / steps, ddof=1)) / math.sqrt(len(steps))
        reach = float(stdtrit(len(steps) - 1, 0.975)) * spread
        low, high = max(0.0, share - reach), min(1 - _LEAST_LEFT, share + reach)
        speedup = Interval(low=1 / (1 - low), mid=1 / (1 - share), high=1 / (1 - high))
        yield Ceiling(name=name, idealised=idealised, step_s=float(steps.mean()) * (1 - share), speedup=speedup)
