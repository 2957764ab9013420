"""Step times at several numbers of threads -> what the step is made of, which number is best, and why. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hotlap.record import Cores, Scaling, Sweep, ThreadTime
from hotlap.units import duration, percent

# Times are never better known than this, however narrow their interval: clocks and caches are shared.
_LEAST_ERROR = 0.01
# A number of threads within this of the fastest is as fast; the smaller one leaves cores to the loader's workers.
_AS_FAST = (0.02, 0.05)
# A model that is further off than this from a measured step explains nothing.
_MOST_ERROR = 0.15
# With fewer numbers of threads, memory that is exhausted looks like threads that are costly to wake (simulated in
# tests/unit/machine/test_threads.py).
_ENOUGH_TO_TELL = 6
# Parts of a step below this are not worth a word.
_WORTH_SAYING = 0.03


def counts(cores: Cores) -> tuple[int, ...]:
    """Numbers of threads worth timing: 1, 2, 3, 4, 6, 8, 12, ..., and where the kind of processor changes."""
    allowed = max(1, min(cores.allowed, math.ceil(cores.quota or math.inf) if cores.quota else cores.allowed))
    doubling = (count for k in range(allowed.bit_length()) for count in (2**k, 3 * 2**k))
    edges = (cores.fast or allowed, cores.physical or allowed, allowed)
    return tuple(sorted({count for count in (*doubling, *edges) if count <= allowed}))


def explain(times: Sequence[ThreadTime], cores: Cores, *, default_threads: int | None = None) -> Sweep:
    """All that can be said about one step at several numbers of threads."""
    known = tuple(sorted(times, key=lambda one: one.threads))
    if not known:
        return Sweep(times=(), cores=cores, best_threads=None, default_threads=default_threads)
    scaling = fit([one for one in known if one.threads <= _alike(known, cores)])
    notes = tuple(_notes(known, cores))
    if scaling is not None and scaling.error > _MOST_ERROR:
        notes = (
            *notes,
            f"No simple law explains these times (they are up to {percent(scaling.error)} off the best one).",
        )
        scaling = None
    best = best_of(known)
    usual = _nearest(known, default_threads or cores.physical or known[-1].threads)
    busy = None if scaling is None else busy_share(usual, scaling, logical=cores.logical)
    return Sweep(
        times=known,
        cores=cores,
        best_threads=best.threads,
        default_threads=default_threads,
        scaling=scaling,
        busy=busy,
        why=_why(known, best, usual, scaling, busy, cores),
        notes=notes,
    )


def best_of(times: Sequence[ThreadTime]) -> ThreadTime:
    """The smallest number of threads that is as fast as the fastest, as far as it is known how fast that is."""
    fastest = min(times, key=lambda one: one.step_s.mid)
    step = fastest.step_s
    low, high = _AS_FAST
    tolerance = min(high, max(low, (step.high - step.low) / 2 / step.mid))
    return min((one for one in times if one.step_s.mid <= (1 + tolerance) * step.mid), key=lambda one: one.threads)


def predict(scaling: Scaling, threads: int) -> float:
    """Seconds of a step by the model."""
    return (
        scaling.serial_s
        + scaling.parallel_s / threads
        + scaling.memory_s / min(threads, scaling.memory_threads)
        + scaling.waking_s * (threads - 1)
    )


def fit(times: Sequence[ThreadTime]) -> Scaling | None:
    """The simplest model of a step that explains its times; None with fewer than two numbers of threads.

    Parts are never negative (least squares under that condition). A further part must explain more than its share of
    noise does (Akaike's criterion), and there must be more times than parts.
    """
    if len({one.threads for one in times}) < 2:
        return None
    candidates = [_solve(times, shape) for shape in _shapes(times)]
    _, best = min(candidates, key=lambda pair: pair[0])
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Which parts a model has beside the serial one."""

    parallel: bool = True
    knee: float | None = None
    """Number of threads that exhausts memory; None: no such part."""
    waking: bool = False

    @property
    def num_free(self) -> int:
        return 1 + self.parallel + self.waking + 2 * (self.knee is not None)


def _shapes(times: Sequence[ThreadTime]) -> Iterator[_Shape]:
    """Simplest first; each has fewer parts than there are times (two of each, at least)."""
    yield _Shape()
    yield _Shape(parallel=False, waking=True)
    # From 1.5 threads on: what one thread exhausts is the same as a serial part.
    most = max(one.threads for one in times)
    knees = [knee for k in range(4 * most.bit_length()) if 1.5 <= (knee := 2 ** (k / 4)) < most]
    for shape in (
        _Shape(waking=True),
        *(_Shape(knee=knee) for knee in knees),
        *(_Shape(knee=knee, waking=True) for knee in knees),
    ):
        if shape.num_free < len(times):
            yield shape


def _solve(times: Sequence[ThreadTime], shape: _Shape) -> tuple[float, Scaling]:
    """Akaike's criterion, and the model of this shape that fits best."""
    import numpy as np
    from scipy.optimize import nnls

    threads = np.array([float(one.threads) for one in times])
    step_s = np.array([one.step_s.mid for one in times])
    error_s = np.array([max(_LEAST_ERROR * s.mid, (s.high - s.low) / 4) for s in (one.step_s for one in times)])
    columns = {"serial_s": np.ones_like(threads)}
    if shape.parallel:
        columns["parallel_s"] = 1 / threads
    if shape.knee is not None:
        columns["memory_s"] = 1 / np.minimum(threads, shape.knee)
    if shape.waking:
        columns["waking_s"] = threads - 1
    table = np.stack(list(columns.values()), axis=1)
    parts, _ = nnls(table / error_s[:, None], step_s / error_s)
    rest = step_s - table @ parts
    found = dict(zip(columns, map(float, parts), strict=True))
    scaling = Scaling(
        serial_s=found["serial_s"],
        parallel_s=found.get("parallel_s", 0.0),
        memory_s=found.get("memory_s", 0.0),
        memory_threads=shape.knee or 1.0,
        waking_s=found.get("waking_s", 0.0),
        error=float(np.max(np.abs(rest) / step_s)),
    )
    return float(np.sum((rest / error_s) ** 2)) + 2 * shape.num_free, scaling


def busy_share(at: ThreadTime, scaling: Scaling, *, logical: int) -> float:
    """Part of all logical processors that a monitor shows at work: one in serial parts, `threads` in all others.

    A thread that waits for memory counts as at work, as it does for the system. A thread that waits for others counts
    as idle; some runtimes let it spin for a moment, so a monitor may show more.
    """
    step_s = at.step_s.mid
    alone_s = min(step_s, scaling.serial_s + scaling.waking_s * (at.threads - 1))
    return (alone_s + (step_s - alone_s) * at.threads) / (step_s * max(logical, at.threads))


def _alike(times: Sequence[ThreadTime], cores: Cores) -> int:
    """Up to so many threads each gets a core of the same kind: there the model holds."""
    most = times[-1].threads
    for edge in (cores.fast, cores.physical):
        if edge is not None and sum(one.threads <= edge for one in times) >= 2:
            return min(edge, most)
    return most


def _nearest(times: Sequence[ThreadTime], threads: int) -> ThreadTime:
    return min(times, key=lambda one: (abs(one.threads - threads), one.threads))


def _why(
    times: Sequence[ThreadTime],
    best: ThreadTime,
    usual: ThreadTime,
    scaling: Scaling | None,
    busy: float | None,
    cores: Cores,
) -> str:
    verdict = (
        f"{_threads(best.threads)} {'is' if best.threads == 1 else 'are'} best, at {duration(best.step_s.mid)} a step"
    )
    if scaling is None or busy is None:
        return f"{verdict}."
    where = f"With {_threads(usual.threads)} on {cores.logical} logical processors"
    seen = f"{where} a monitor shows about {percent(busy)} busy"
    told_apart = sum(one.threads <= _alike(times, cores) for one in times) >= _ENOUGH_TO_TELL
    reasons = list(_reasons(usual, scaling, cores, told_apart=told_apart))
    because = f": {', '.join(reasons)}" if reasons else ""
    gain = usual.step_s.mid / best.step_s.mid
    faster = f" ({gain:.2f}x faster)" if best.threads != usual.threads and gain > 1 + _AS_FAST[0] else ""
    return f"{seen}{because}; {verdict}{faster}."


def _reasons(at: ThreadTime, scaling: Scaling, cores: Cores, *, told_apart: bool) -> Iterator[str]:
    step_s = at.step_s.mid
    if at.threads < cores.logical:
        yield f"no more than {percent(at.threads / cores.logical)} can be, as the other processors get no thread"
    serial_s = min(scaling.serial_s, step_s)
    if at.threads > 1 and serial_s >= _WORTH_SAYING * step_s:
        share = percent(serial_s / step_s)
        yield f"{share} of each step ({duration(serial_s)}) runs on one thread while the others wait"
    waking_s = scaling.waking_s * (at.threads - 1)
    if waking_s >= _WORTH_SAYING * step_s:
        doing = "waking and awaiting" if told_apart else "waking, awaiting, or sharing the memory's bandwidth with"
        yield f"{doing} {_threads(at.threads - 1)} takes {percent(waking_s / step_s)} ({duration(waking_s)})"
    memory_s = scaling.memory_s / min(at.threads, scaling.memory_threads)
    if at.threads > scaling.memory_threads and memory_s >= _WORTH_SAYING * step_s:
        yield (
            f"{percent(memory_s / step_s)} ({duration(memory_s)}) is bound by memory, which about "
            f"{scaling.memory_threads:.0f} threads exhaust: there more threads look busy and wait"
        )


def _notes(times: Sequence[ThreadTime], cores: Cores) -> Iterator[str]:
    """What the slower kinds of processor bring."""
    for edge, kind in ((cores.fast, "on slower cores"), (cores.physical, "two on a core")):
        inside = [one for one in times if edge is not None and one.threads <= edge]
        beyond = [one for one in times if edge is not None and one.threads > edge]
        if not inside or not beyond or (kind == "on slower cores" and cores.fast == cores.physical):
            continue
        before, after = inside[-1], min(beyond, key=lambda one: one.step_s.mid)
        change = before.step_s.mid / after.step_s.mid
        how = f"{change:.2f}x faster" if change >= 1 else f"{1 / change:.2f}x slower"
        yield f"From {before.threads} to {after.threads} threads, the further ones {kind}, a step gets {how}."
    if cores.quota is not None and cores.quota < cores.allowed:
        yield f"A cgroup grants {cores.quota:g} cores of time: with more threads, all are stopped now and then."


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
