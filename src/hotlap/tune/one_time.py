"""What levers cost once (compiling, filling a cache), and the step from which on that has paid itself back."""

from collections.abc import Sequence
from statistics import fmean

from hotlap import statistics
from hotlap.record import Run

# From one process to the next the start takes a few tenths of a second more or less. A cost is believed where processes
# agree on it: where the smallest that was seen is at least this part of the largest.
_AGREE = 0.5


def one_time_s(base: Run, run: Run) -> float | None:
    """Seconds that the start of `run` took beyond its own steady steps, less the same of `base`; None without steps.

    Both are fresh processes of one heat. Their first steps hold what comes before them: data sets, imports.
    """
    parts = [_beyond_steady_s(one) for one in (base, run)]
    if parts[0] is None or parts[1] is None:
        return None
    return parts[1] - parts[0]


def _beyond_steady_s(run: Run) -> float | None:
    if not run.step_s or not run.first_steps_s:
        return None
    return sum(run.first_steps_s) - len(run.first_steps_s) * fmean(run.step_s)


def agreed_s(costs: Sequence[float]) -> float | None:
    """One-time costs seen in several processes -> what is believed of them; None where that is chance."""
    if len(costs) < 2 or min(costs) <= 0 or min(costs) < _AGREE * max(costs):
        return None
    return fmean(costs)


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
