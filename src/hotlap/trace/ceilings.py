"""What could be gained at best, by a trace: each step without what the device spent on one thing."""

from collections.abc import Iterator

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
    return tuple(sorted(_each(run), key=lambda ceiling: -ceiling.speedup.mid))


def _each(run: Run) -> Iterator[Ceiling]:
    for phase, (name, idealised) in _FREE.items():
        saved_s = run.phase_s.get(phase) or ()
        speedup = batches.speedup_without(run.step_s, saved_s)
        if speedup is not None and speedup.mid >= _LEAST:
            yield Ceiling(name=name, idealised=idealised, step_s=run.mean_step_s() / speedup.mid, speedup=speedup)
