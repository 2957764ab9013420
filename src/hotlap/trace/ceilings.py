"""What could be gained at best, by a trace: each step without what the device spent on one thing."""

from hotlap.experiment import batches
from hotlap.record import Ceiling, Phase, Run

# Less is not worth a line.
_LEAST = 1.01

_FREE = {
    Phase.INPUT: ("input", "no wait for a batch"),
    Phase.COMMUNICATION: ("communication", "no wait for other processes and for data on their way"),
    Phase.TRANSFER: ("transfers", "copies only beside kernels"),
    Phase.OTHER: ("host work", "the device never idles while the host does more than launch"),
    Phase.SYNC: ("sync", "no wait of the host for the device"),
    Phase.OPTIMIZER: ("optimizer", "no time in optimizer steps"),
}


def ceilings(run: Run) -> tuple[Ceiling, ...]:
    """Highest first; none of fewer than three steps. The interval covers what varies from step to step of the trace."""
    each = (batches.ceiling(run, *words, run.phase_s.get(phase) or ()) for phase, words in _FREE.items())
    found = (one for one in each if one is not None and one.speedup.mid >= _LEAST)
    return tuple(sorted(found, key=lambda one: -one.speedup.mid))
