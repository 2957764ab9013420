"""Runs of some steps -> what the whole training takes, the ratio of two, and what something costs once.

A typical step is not the run: a cache is filled in the first epoch at full price, workers start anew with each epoch,
and a validation has its own. So each ratio is told twice: of a typical step (`hotlap.experiment.table`), and of total
time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median, pvariance

from hotlap.experiment import statistics
from hotlap.record import Interval, Run

Pairs = Sequence[tuple[Run, Run]]
"""Processes that ran side by side, (base, other): the unit of chance."""

EndsS = tuple[float, float]
"""Seconds that an epoch's end takes, (base, other)."""

# From one process to the next the start takes a few tenths of a second more or less, on a busy machine. A cost is
# believed where no process without it took as long to start as any with it, where it is more than this part of the
# script's own start,
_OF_THE_START = 0.1
# and where processes agree on it: where the smallest that was seen is at least this part of the middle one. (Not of the
# largest: what the first process compiled the others find in a cache.)
_AGREE = 0.5

# Totals of ten scripts as steps told them were off those of a stopwatch by 9% (root of the mean square; two of them by
# 16% and 18%, as a compiled model is compiled once more for its first validation): benchmarks/track on 2026-11-27.
_STEPS_OFF_SD = 0.1
# In another hour a patch saves more or less than in that of the study, as machine and neighbours meet both versions
# otherwise: by this part of what it saves (a standard deviation, by maximum likelihood from 28 studies of
# examples/digits.py, November 2026, and three pairs of whole trainings timed behind each). Without it the intervals of
# these 28 held what was timed then 21 times, with it 26 times.
_HOURS_SD = 0.2
# Of a normal distribution, in standard deviations.
_REACH_95 = 1.96


@dataclass(frozen=True, slots=True)
class Length:
    """Of a training, in steps."""

    num_steps: int | None
    """Of all of it; None: not known, or in the long run, where what is paid once does not count."""
    epoch_steps: int | None
    """Of an epoch; None where that is not known."""


def total_s(run: Run, length: Length, *, end_s: float = 0.0) -> float:
    """Seconds from the start of the process to the end of the last step; what comes after that is not in it. In the
    long run: seconds a step.

    `end_s`: as `long_step_s` has it. No step is cut down: pauses are a part of the time.
    """
    step_s = long_step_s(run, epoch_steps=length.epoch_steps, end_s=end_s)
    if length.num_steps is None:
        return step_s
    later = length.num_steps - len(run.first_steps_s[: length.num_steps])
    return _begun_s(run, num_steps=length.num_steps) + later * step_s


def _begun_s(run: Run, *, num_steps: int) -> float:
    """Seconds from the start of the process to the end of its first steps."""
    first = run.first_steps_s[:num_steps]
    # The first step begins with the recording, before data sets and models are made: `setup_s` holds it.
    return sum(first) if run.setup_s is None else run.setup_s - run.own_start_s + sum(first[1:])


def long_step_s(run: Run, *, epoch_steps: int | None, end_s: float = 0.0) -> float:
    """Seconds a step in a long training: the mean of steps within an epoch, and each step's part of the epoch's end.
    NaN without a step.

    `epoch_steps`: steps of an epoch; None where that is not known. `end_s`: what its end takes, where the run saw none.
    """
    within = _within(run)
    if not within or epoch_steps is None:
        return fmean(run.step_s) + run.validation_s / len(run.step_s) if run.step_s else math.nan
    seen_s = epoch_end_s(run, epoch_steps=epoch_steps)
    return fmean(within) + (end_s if seen_s is None else seen_s) / epoch_steps


def epoch_end_s(run: Run, *, epoch_steps: int | None) -> float | None:
    """What an epoch takes beyond its steps: validations, and the longer first step of the next one. None where the run
    saw neither; its very first step holds more than that.

    Where there are more validations than epochs began, they come every so many steps; else at the ends of epochs.
    """
    starts = [i for i in run.epoch_starts if run.step_index[i : i + 1] != (0,)]
    within = _within(run)
    if not within or not (starts or run.num_validations):
        return None
    start_s = fmean(run.step_s[i] for i in starts) - fmean(within) if starts else 0.0
    if epoch_steps is not None and run.num_validations > len(run.epoch_starts):
        return start_s + run.validation_s * epoch_steps / len(run.step_s)
    return start_s + run.validation_s / max(1, len(starts), run.num_validations)


def step_within_s(run: Run) -> float:
    """Mean of its steps within an epoch; of all, where it made no others. (The first step of an epoch over items that
    are kept took 0.55 s, the others 0.8 ms: one among 66 made them ten times as long.)"""
    return fmean(_within(run) or run.step_s)


def _within(run: Run) -> list[float]:
    starts = set(run.epoch_starts)
    return [step_s for i, step_s in enumerate(run.step_s) if i not in starts]


def total_speedup(
    pairs: Pairs,
    length: Length,
    *,
    pooled: statistics.Pool | None,
    ends_s: EndsS = (0.0, 0.0),
    alone: Run | None = None,
) -> Interval | None:
    """How many times less time the others take in all.

    `ends_s`: what an epoch's end takes (base, other), for processes that saw none. `alone`: a run of the base that
    started by itself, where those of a pair started at the same time. What theirs took longer they waited for each
    other. As one run says little of that, the interval holds what it would be without it as well.
    """
    total = statistics.interval(_log_ratios(pairs, length, ends_s=ends_s), pooled_variance=pooled)
    if alone is None or length.num_steps is None or total is None:
        return total
    by_itself = _log_ratios(_started_alone(pairs, alone), length, ends_s=ends_s)
    found = statistics.interval(by_itself, pooled_variance=pooled) or total
    return replace(found, low=min(found.low, total.low), high=max(found.high, total.high))


def _started_alone(pairs: Pairs, alone: Run) -> Pairs:
    """The same without what their starts took longer than that of the base by itself."""
    own_s, found = _start_s(alone), []
    for base, other in pairs:
        waited_s = min(_start_s(base), _start_s(other)) - own_s
        waited_s = waited_s if waited_s > 0 else 0.0  # nor where it is not known
        base_alone, other_alone = (replace(run, own_start_s=run.own_start_s + waited_s) for run in (base, other))
        found.append((base_alone, other_alone))
    return found


def whole_speedup(
    whole_s: Sequence[tuple[float, float]], pairs: Pairs, by_steps: Interval | None, length: Length
) -> Interval | None:
    """Seconds of whole trainings (base, other), one after the other, weighed with what `total_speedup` makes of the
    steps of `pairs`; None where nothing is known.

    The clock is right in the mean, and disturbed: trainings that run one after the other meet other hours of the
    machine. Steps of processes that took turns are steady, and off by what they do not see. Each is weighed by its
    variance. Where one or two whole trainings contradict the steps, nobody knows which of them was disturbed, or
    what the steps do not see: the interval holds both. What three or more contradict the steps by, the steps are off by
    (random effects: DerSimonian and Laird, Controlled Clinical Trials 7, 177, 1986, of the steps alone).

    In tests/property/test_totals.py, beside one, two or four pairs of whole trainings alone: on recorded noise of a
    disturbed hour the middle is off by 0.04 to 0.10 (a logarithm), where theirs is by 0.16 to 0.26; in a quiet hour by
    as much as theirs, 0.01 to 0.02. The interval holds the truth in 91% and more. Where steps are off by 0.6 in the
    root of the mean square, the middle of four pairs is off by 0.09 to 0.21, theirs by 0.07 to 0.16.
    """
    spread = _spread_in_time(pairs, length)
    clock = statistics.interval([math.log(base_s / other_s) for base_s, other_s in whole_s], pooled_variance=spread)
    if clock is None or by_steps is None:
        return clock or by_steps
    few, apart = len(whole_s) < statistics.FEWEST_SHOWN, math.log(by_steps.mid / clock.mid)
    clock_reach = _reach(clock)
    steps_reach = math.hypot(_reach(by_steps), _REACH_95 * _STEPS_OFF_SD)
    both_reach = math.hypot(clock_reach, steps_reach)
    contradict = abs(apart) > both_reach
    if contradict and not few:
        steps_reach = math.sqrt((_REACH_95 * apart) ** 2 - clock_reach**2)
        both_reach = math.hypot(clock_reach, steps_reach)
    mid = math.log(clock.mid) + (clock_reach / both_reach) ** 2 * apart
    if contradict and few:
        low, high = min(clock.low, by_steps.low), max(clock.high, by_steps.high)
        return Interval(low=low, mid=math.exp(mid), high=high)
    reach = clock_reach * steps_reach / both_reach
    return Interval(low=math.exp(mid - reach), mid=math.exp(mid), high=math.exp(mid + reach))


def in_any_hour(total: Interval) -> Interval:
    """What was told in the hour of the study, as wide as it takes to hold whole trainings of other hours."""
    saved = abs(1 - 1 / total.mid)
    low, high = (
        math.hypot(math.log(one / other), _REACH_95 * _HOURS_SD * saved)
        for one, other in ((total.mid, total.low), (total.high, total.mid))
    )
    return replace(total, low=total.mid * math.exp(-low), high=total.mid * math.exp(high))


def _spread_in_time(pairs: Pairs, length: Length) -> statistics.Pool | None:
    """Variance of log-ratios of processes that do not run side by side: of the base of each pair and the other of the
    next one, and the other way round. (Of 24 pairs recorded in a disturbed hour, side by side a standard deviation of
    6%, one after the other 25%.)"""
    known = _log_ratios(pairs, length)
    apart = [(one[0], two[1]) for a, b in pairwise(pairs) for one, two in ((a, b), (b, a))]
    ratios = _log_ratios(apart, length)
    return (pvariance(ratios, fmean(known)), len(known) - 1) if ratios and len(known) > 1 else None


def _reach(interval: Interval) -> float:
    """Half of it, as a logarithm."""
    return math.log(interval.high / interval.low) / 2


def never_shorter(pairs: Pairs, length: Length, *, at_once: int) -> bool:
    """In no pair of processes would the whole training take less time. (A pause of one of them decides nothing.)

    `at_once`: processes that started at the same time, this pair among them. The base starts in the shortest time; what
    one of the others costs beyond that takes by itself as small a part of the time that was seen as there are of them,
    if they all wanted the same cores. Steps alone take turns.
    """
    ratios = _log_ratios(pairs, length, others=at_once - 1)
    return bool(ratios) and max(ratios) <= 0.0


def _log_ratios(pairs: Pairs, length: Length, *, ends_s: EndsS = (0.0, 0.0), others: int = 1) -> list[float]:
    """Of total times, base over other."""
    ratios = []
    for base, other in pairs:
        took = [total_s(run, length, end_s=end_s) for run, end_s in zip((base, other), ends_s, strict=True)]
        if length.num_steps is not None:
            begun_s, other_begun_s = (_begun_s(run, num_steps=length.num_steps) for run in (base, other))
            took[1] -= max(0.0, other_begun_s - begun_s) * (1 - 1 / max(1, others))
        if all(math.isfinite(seconds) and seconds > 0 for seconds in took):
            ratios.append(math.log(took[0] / took[1]))
    return ratios


def one_time_s(pairs: Pairs) -> float | None:
    """What the others cost once (compiling, filling a cache); None where it is nothing, or chance.

    Processes of a trial group start side by side. The base waits for whatever the other does on all cores then (it
    compiles), so its own start is the shortest that was seen.
    """
    known = [[seconds for pair in pairs if not math.isnan(seconds := _start_s(pair[side]))] for side in (0, 1)]
    bases_s, starts_s = known
    if len(starts_s) < 2 or not bases_s or min(starts_s) <= max(bases_s):
        return None
    own_s = min(bases_s)
    costs_s = [start - own_s for start in starts_s]
    if min(costs_s) <= _OF_THE_START * abs(own_s) or min(costs_s) < _AGREE * median(costs_s):
        return None
    return median(costs_s)


def _start_s(run: Run) -> float:
    """Seconds that the start of `run`, a fresh process, took beyond its own steady steps; NaN without steps.

    Its first steps hold what comes before them: imports, data sets, compiling.
    """
    num_steps = len(run.first_steps_s)
    return _begun_s(run, num_steps=num_steps) - num_steps * step_within_s(run) if run.step_s and num_steps else math.nan


def break_even_step(one_time_s: float, step_before_s: float, step_after_s: float) -> int | None:
    """The step from which on a one-time cost has paid itself back; None if it never does."""
    saved_s = step_before_s - step_after_s
    if not (saved_s > 0 and math.isfinite(one_time_s / saved_s)):
        return None
    return math.ceil(max(0.0, one_time_s) / saved_s)
