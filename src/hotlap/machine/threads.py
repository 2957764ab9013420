"""Step times at several numbers of threads -> which number is best, and what the threads bring. Pure."""

import math
from collections.abc import Sequence

from hotlap.record import Cores, Sweep, ThreadTime
from hotlap.units import duration, percent, plural

# A number of threads within this of the fastest is as fast (within the first always, as clocks and caches are shared;
# up to the second where times are not known better); the smaller one leaves cores to the loader's workers.
_AS_FAST = (0.02, 0.05)


def counts(cores: Cores) -> tuple[int, ...]:
    """Numbers of threads worth timing: 1, 2, 3, 4, 6, 8, 12, ..., all cores, and all that may be used."""
    allowed = max(1, min(cores.allowed, math.ceil(cores.quota) if cores.quota else cores.allowed))
    doubling = (count for k in range(allowed.bit_length()) for count in (2**k, 3 * 2**k))
    edges = (cores.physical or allowed, allowed)
    return tuple(sorted({count for count in (*doubling, *edges) if count <= allowed}))


def explain(times: Sequence[ThreadTime], cores: Cores, *, default_threads: int | None = None) -> Sweep:
    """One step at several numbers of threads, and what follows from it."""
    known = tuple(sorted(times, key=lambda one: one.threads))
    return Sweep(times=known, cores=cores, why=_why(known, cores, default_threads) if known else "")


def best_of(times: Sequence[ThreadTime]) -> ThreadTime:
    """The smallest number of threads that is as fast as the fastest, as far as it is known how fast that is."""
    fastest = min(times, key=lambda one: one.step_s.mid)
    step = fastest.step_s
    low, high = _AS_FAST
    tolerance = min(high, max(low, (step.high - step.low) / 2 / step.mid))
    return min((one for one in times if one.step_s.mid <= (1 + tolerance) * step.mid), key=lambda one: one.threads)


def _why(times: Sequence[ThreadTime], cores: Cores, default_threads: int | None) -> str:
    best, first = best_of(times), times[0]
    wanted = default_threads or cores.physical or times[-1].threads
    usual = min(times, key=lambda one: (abs(one.threads - wanted), one.threads))
    gain = usual.step_s.mid / best.step_s.mid
    beside = f" ({gain:.2f}x as fast as {usual.threads})" if best.threads != usual.threads else ""
    told = (
        f"{plural(best.threads, 'thread')} {'is' if best.threads == 1 else 'are'} best, at "
        f"{duration(best.step_s.mid)} a step{beside}"
    )
    if usual.threads > first.threads:
        faster, more = first.step_s.mid / usual.step_s.mid, usual.threads / first.threads
        told += (
            f"; a step with {usual.threads} is {faster:.2f}x as fast as with {first.threads}, {percent(faster / more)} "
            "of what equal cores without waiting would bring"
        )
    if usual.threads < cores.logical:
        told += (
            f"; {plural(usual.threads, 'thread')} can keep {percent(usual.threads / cores.logical)} of "
            f"{cores.logical} logical processors busy at most"
        )
    return f"{told}."
