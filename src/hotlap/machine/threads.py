"""Step times at several numbers of threads -> which number is best, and what the threads bring. Pure."""

import math
from collections.abc import Sequence

from hotlap.record import LEAST_GAIN, Interval, Machine, Run, Sweep, ThreadTime
from hotlap.units import duration, percent, plural

# A number of threads within this of the fastest is as fast (within the first always, as clocks and caches are shared;
# up to the second where times are not known better); the smaller one leaves cores to the loader's workers.
_AS_FAST = (0.02, 0.05)


def counts(machine: Machine) -> tuple[int, ...]:
    """Numbers of threads worth timing: 1, 2, 3, 4, 6, 8, 12, ..., all cores, and all that may be used."""
    allowed = max(1, math.ceil(machine.usable_cores))
    doubling = (count for k in range(allowed.bit_length()) for count in (2**k, 3 * 2**k))
    edges = (machine.physical_cores or allowed, allowed)
    return tuple(sorted({count for count in (*doubling, *edges) if count <= allowed}))


def explain(
    times: Sequence[ThreadTime], machine: Machine, *, default_threads: int | None = None, doubt: str | None = None
) -> Sweep:
    """One step at several numbers of threads, and what follows from it.

    Arguments:
        times: of the same step.
        default_threads: what the script runs with by itself.
        doubt: what stands beside a gain by fewer threads, as `crowded` says it.
    """
    known = tuple(sorted(times, key=lambda one: one.threads))
    if not known:
        return Sweep(times=())
    best, usual = best_of(known), _usual(known, machine, default_threads)
    gain = _ratio(usual, best)
    clear = best.threads < usual.threads and gain.low > LEAST_GAIN
    beside = f" {doubt}" if clear and doubt else ""
    few = plural(best.threads, "thread")
    fewer = f"With {few} instead of {usual.threads}, a step is {gain.told} as fast.{beside}" if clear else ""
    return Sweep(times=known, why=f"{_why(known, machine, usual)}{beside}", fewer=fewer)


def crowded(run: Run, what: str) -> str | None:
    """That `what`, by which fewer threads are used, may save no more than what others cost this baseline; None where
    they cost it little."""
    served = run.cpu.served if run.cpu is not None and run.cpu.disturbed else None
    if served is None or run.num_threads in (None, 1):
        return None
    return (
        f"Other programs used the cores: training had one for {percent(served)} of the time in which it wanted one. "
        f"{run.num_threads} threads that wait for each other are slow then, and {what} may save that alone: run it "
        "again on a quiet machine to know what is gained there."
    )


def best_of(times: Sequence[ThreadTime]) -> ThreadTime:
    """The smallest number of threads that is as fast as the fastest, as far as it is known how fast that is."""
    fastest = min(times, key=lambda one: one.step_s.mid)
    step = fastest.step_s
    low, high = _AS_FAST
    tolerance = min(high, max(low, (step.high - step.low) / 2 / step.mid))
    return min((one for one in times if one.step_s.mid <= (1 + tolerance) * step.mid), key=lambda one: one.threads)


def _usual(times: Sequence[ThreadTime], machine: Machine, default_threads: int | None) -> ThreadTime:
    """What the script runs with by itself, or next to it."""
    wanted = default_threads or machine.physical_cores or times[-1].threads
    return min(times, key=lambda one: (abs(one.threads - wanted), one.threads))


def _ratio(slow: ThreadTime, fast: ThreadTime) -> Interval:
    """How many times as fast; from the ends of both intervals, so it is wider than 95% needs."""
    one, other = slow.step_s, fast.step_s
    return Interval(low=one.low / other.high, mid=one.mid / other.mid, high=one.high / other.low)


def _why(times: Sequence[ThreadTime], machine: Machine, usual: ThreadTime) -> str:
    best, first = best_of(times), times[0]
    beside = "" if best is usual else f", {_ratio(usual, best).told} as fast as {usual.threads}"
    told = (
        f"{plural(best.threads, 'thread')} {'is' if best.threads == 1 else 'are'} best, at "
        f"{duration(best.step_s.mid)} a step{beside}"
    )
    if usual.threads > first.threads:
        faster, more = _ratio(first, usual), usual.threads / first.threads
        told += (
            f"; a step with {usual.threads} is {faster.told} as fast as with {first.threads}, "
            f"{percent(faster.mid / more)} of what equal cores without waiting would bring"
        )
    if usual.threads < machine.num_cores:
        told += (
            f"; {plural(usual.threads, 'thread')} can keep {percent(usual.threads / machine.num_cores)} of "
            f"{machine.num_cores} logical processors busy at most"
        )
    return f"{told}."
