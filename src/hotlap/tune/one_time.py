"""What levers cost once (compiling, filling a cache), and the step from which on that has paid itself back."""

from collections.abc import Sequence
from statistics import fmean, median

from hotlap import statistics
from hotlap.record import Run

# From one process to the next the start takes a few tenths of a second more or less, on a busy machine. A cost is
# believed where no process without it took as long to start as any with it, where it is more than this part of the
# script's own start,
_OF_THE_START = 0.1
# and where processes agree on it: where the smallest that was seen is at least this part of the middle one. (Not of the
# largest: what the first process compiled the others find in a cache.)
_AGREE = 0.5


def start_s(run: Run) -> float | None:
    """Seconds that the start of `run`, a fresh process, took beyond its own steady steps; None without steps.

    Its first steps hold what comes before them: imports, data sets, compiling.
    """
    if not run.step_s or not run.first_steps_s:
        return None
    return sum(run.first_steps_s) - len(run.first_steps_s) * fmean(run.step_s)


def one_time_s(bases_s: Sequence[float], starts_s: Sequence[float]) -> float | None:
    """Starts of the script without and with something -> what that costs once; None where it is nothing, or chance.

    All of the same heats, in which processes start side by side. The base waits for whatever the other does on all
    cores then (it compiles), so its own start is the shortest that was seen.
    """
    if len(starts_s) < 2 or not bases_s or min(starts_s) <= max(bases_s):
        return None
    own_s = min(bases_s)
    costs_s = [start - own_s for start in starts_s]
    if min(costs_s) <= _OF_THE_START * abs(own_s) or min(costs_s) < _AGREE * median(costs_s):
        return None
    return median(costs_s)


def break_even_step(cost_s: float | None, base: Run | None, run: Run | None) -> int | None:
    """The step from which on `cost_s` has paid itself back; None where it costs nothing, or never does."""
    if cost_s is None or base is None or run is None or not base.step_s or not run.step_s:
        return None
    return statistics.break_even_step(cost_s, fmean(base.step_s), fmean(run.step_s))


def too_late(step: int | None, horizon: int | None) -> str | None:
    """Why a cost that is paid back at `step` is not worth it in a run of `horizon` steps; None if it is."""
    if step is None or horizon is None or step <= horizon:
        return None
    return f"what it costs once is paid back at step {step:,}, and the training makes {horizon:,} steps"
