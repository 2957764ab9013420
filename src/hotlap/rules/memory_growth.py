"""memory-growth: memory grows with every step.

What it says: the process (or the tensors on the device) hold so many bytes more after each step, in the second half of
the run as in the first, and what that costs a step where steps grow longer too. A step that makes more forward passes
than those before it (an episode that lasts longer) needs more memory and time for its work: that is no growth.
Why it is bad: the run ends when memory does; until then the system pages, caches are evicted, and whoever walks over
what was kept takes longer and longer.
Where the memory that is free would be full within an hour, this comes first, however little a step pays so far; but
what is kept for the end of an epoch (its scores, for a metric) goes then, so only where one ended meanwhile; where
none did, and memory lasts for longer, it is told only if it costs something.
Example: `losses.append(loss)` keeps each loss with the graph that made it; `losses.append(loss.detach())` does not.
Risk: none, as long as nothing reads later what was kept.

Before:

    losses.append(loss)

After:

    losses.append(loss.detach())
"""

import math
from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import median

from hotlap.record import NUM_EIGHTHS, Finding, Machine, MemorySample, Run, eighths
from hotlap.rules.shape_churn import MIN_SHAPES
from hotlap.rules.step import finding
from hotlap.units import duration, size

# Ours: caches, allocators and memory pools still settle after the warm-up, by some MiB in all and slower and slower.
MIN_GROWTH = 8 << 20

# The later half must grow at least this much as fast as the earlier.
MIN_STEADY = 0.5

# Of the steps from one eighth of the run to the next so many must grow, each by this part of what an even growth has
# there: an allocator's memory goes up and down, and a few KiB more are no growth. (Ours: a sound training on a busy
# machine went 24 MiB down and 36 up again in its first half, rose by some KiB afterwards, and was said to grow.)
_MIN_RISING = 6
_MIN_RISE = 0.25

_FEWEST = 8

# Growth where shapes are known, against that of the whole run: a leak is the same in both.
_HARDLY = 0.5

# To zero and map a page of 4 KiB takes the kernel 0.25 us and more; memory that is used again costs nothing.
_FAULT_S_PER_BYTE = 0.25e-6 / 4096


# Ours: few trainings that somebody wants to be faster are over sooner.
_SOON_S = 3600.0

# Bytes of the largest GPU that is sold (MI355X); the one at hand has less.
_LARGEST_DEVICE = 288 << 30

EXPLAINS = frozenset({"host-bound", "launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Growth after the warm-up that does not slow down. While a profiler keeps its events, growth says nothing."""
    if run.switches is not None and run.switches.profiler:
        return None
    recorded = run.step_index or (0,)
    samples = [sample for sample in run.memory if recorded[0] <= sample.step <= recorded[-1]]
    on_device = [one.device_bytes for one in samples if one.device_bytes is not None]
    in_process = [one.rss_bytes if one.private_bytes is None else one.private_bytes for one in samples]
    free = machine.available_bytes if machine is not None else math.inf
    for what, values, room in (("on the device", on_device, _LARGEST_DEVICE), ("in the process", in_process, free)):
        grown = _steady_growth(values)
        steps = samples[-1].step - samples[0].step if samples else 0
        if grown is None or steps <= 0 or any(_grows_at(new, samples, values) for new in _firsts(run) if new):
            continue
        per_step = grown / steps
        cost_s = max(_longer_s(run), per_step * _FAULT_S_PER_BYTE)
        left_s = room / per_step * run.mean_step_s()
        lasts = _outlasts_epoch(run, samples)
        soon = left_s < _SOON_S
        end = f" All of it would be full in {duration(left_s)} at the latest." if soon else ""
        asks = " No end of an epoch was seen: does it fall there? `hotlap measure --full` tells."
        found = finding(
            run,
            cost_s,
            f"Memory {what} grew by {size(grown)} in {steps:,} steps, {size(per_step)} each, "
            f"{'and goes on' if lasts else 'until now'}; that costs {run.with_share(cost_s)} of each step so far."
            f"{end if lasts else asks}",
        )
        return replace(found, urgent=lasts and soon, at_any_cost=lasts or soon)
    return None


def _steady_growth(values: list[int]) -> int | None:
    """Bytes from the first to the last eighth; None where there are too few, or where it levels off."""
    if len(values) < _FEWEST:
        return None
    levels = eighths(values)
    grown = round(levels[-1] - levels[0])
    rising = sum(b - a >= _MIN_RISE * grown / (NUM_EIGHTHS - 1) for a, b in pairwise(levels))
    half = NUM_EIGHTHS // 2
    early, late = levels[half] - levels[0], levels[-1] - levels[half - 1]
    if grown < MIN_GROWTH or rising < _MIN_RISING or late < MIN_STEADY * early:
        return None
    return grown


def _outlasts_epoch(run: Run, samples: list[MemorySample]) -> bool:
    """An epoch began so long before the last sample that a fall would show; as any did of a run that was followed to
    its end, of whose steps a part is kept."""
    seen_until = samples[len(samples) - math.ceil(len(samples) / NUM_EIGHTHS)].step
    starts = (run.step_index[i] for i in run.epoch_starts)
    return run.long is not None or any(samples[0].step < step <= seen_until for step in starts)


def _firsts(run: Run) -> tuple[tuple[int, ...], ...]:
    """Numbers of the steps that needed memory as none before them: a shape that is new, or more work than ever.

    What is prepared for a shape is kept (oneDNN holds 1,024 primitives, cuDNN its plans), and ends when shapes do:
    that is `shape-churn`. What a longer step needed, the process keeps for the next one.
    """
    shapes = run.shapes.new_steps if run.shapes is not None and run.shapes.num_shapes >= MIN_SHAPES else ()
    most = accumulate(run.num_forwards, max, initial=0)
    worked = zip(run.step_index, run.num_forwards, most, strict=False)
    return shapes, tuple(step for step, work, before in worked if work > before)


def _grows_at(new: tuple[int, ...], samples: list[MemorySample], values: list[int]) -> bool:
    """Memory grows at those steps, and hardly elsewhere."""
    if len(values) != len(samples):
        return False
    grown, steps, known_grown, known_steps = values[-1] - values[0], samples[-1].step - samples[0].step, 0, 0
    for (before, after), (low, high) in zip(pairwise(samples), pairwise(values), strict=True):
        if bisect_right(new, after.step) == bisect_right(new, before.step):
            known_grown, known_steps = known_grown + high - low, known_steps + after.step - before.step
    if known_steps < _FEWEST:
        return steps > known_steps
    return known_grown / known_steps < _HARDLY * grown / steps


def _longer_s(run: Run) -> float:
    """By how much the mean step is longer than the steps of the first eighth, for the same number of forward passes; 0
    where others took the cores meanwhile, which makes steps longer as well."""
    length = len(run.step_s) // NUM_EIGHTHS
    if length == 0 or (run.cpu is not None and run.cpu.disturbed):
        return 0.0
    known = len(run.num_forwards) == len(run.step_s)
    work = [max(1, num) for num in run.num_forwards] if known else [1] * len(run.step_s)
    each_s = [seconds / num for seconds, num in zip(run.step_s, work, strict=True)]
    early_s, late_s = median(each_s[:length]), median(each_s[-length:])
    return max(0.0, (late_s - early_s) / 2) * median(work)
