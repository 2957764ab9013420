"""Larger batches, on request: samples a second over batch sizes, the knee, and whether a loss is reached sooner."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy as np

from hotlap.experiment import Arm, Comparison, Design, Effect, Group, Rule, Sizes, compare, statistics
from hotlap.experiment.failure import failed
from hotlap.experiment.statistics import Progress
from hotlap.levers import BatchSize
from hotlap.levers.batch_size import batch_size_of, rate_factor
from hotlap.record import LEAST_GAIN, BatchPoint, LeverSpec, Recipe, Run, as_float
from hotlap.search import StudyLog, facts
from hotlap.units import duration

# For one size of the curve: steps timed, in turns, after those in which the optimizer's state comes about.
_STEPS, _TURN, _WARMUP = 66, 11, 10
# A trial group of it may take what is left of the budget, and at least this: batches of another size have steps of
# another length.
_LEAST_LIMIT_S = 60.0

# Of the fastest size's samples a second; what lies beyond the knee brings less, and costs memory and progress a sample.
_NEARLY = 0.9

# Two doublings in a row that bring less than this end the curve.
_LITTLE = 1.05

# An epoch of fewer batches is hardly one of stochastic descent any more.
_FEWEST_BATCHES = 8

# Seeds, each once with the baseline's batches and once with larger ones. Four are the fewest that may show a gain
# without a pool (statistics.Rule).
_SEEDS = 4
# Steps of the baseline whose losses are compared, at least and at most.
_LEAST_STEPS, _MOST_STEPS = 100, 4000
# With larger batches the training may take so many times as many samples to the same loss; who needs more has lost.
_MORE_SAMPLES = 2.0
_LONG_TURN = 50
# From a size that lost to the next one.
_STRIDE = 4

# The loss that is spoken of is the mean over this part of the baseline's steps, those at the end.
_PART, _FEWEST = 0.1, 8
# Losses of the first steps that differ by more are not means over a batch, or not of the same thing.
_LIKE = 1.5
# Of a mean that is computed from sums.
_ROUNDING = 1e-9
# Standard errors by which the loss must have fallen within the window, or there is no loss to compare by.
_CLEARLY = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeToLoss:
    """How long two trainings of one seed take to the loss that the first one came to."""

    loss: float
    before_s: float
    """Seconds of training until the loss, in the baseline."""
    after_s: float


class Recipes:
    """One study of batch sizes, on top of the levers that were accepted."""

    def __init__(self, log: StudyLog, sizes: Sizes) -> None:
        self._log = log
        sizes = replace(sizes, block=_TURN, steps=_STEPS, warmup=_WARMUP)
        self._executor = log.executor(sizes, limit=lambda _: max(_LEAST_LIMIT_S, log.budget.left_s))
        self._known = facts(log.study)
        self._rejected = BatchSize().rejects(self._known, log.machine)
        self._before = batch_size_of(self._known) or 0
        result = log.study.result
        self._stack = result.levers if result is not None else ()

    def study(self) -> None:
        """Write into the study what larger batches come to."""
        if self._rejected is not None:
            recipe = Recipe(before=self._before, size=self._before, why=f"Not tried. {self._rejected}")
        else:
            recipe = self._judged(*self._curve())
        self._log.change("recipe", recipe=recipe)

    def _curve(self) -> tuple[tuple[BatchPoint, ...], str]:
        """Sizes that ran, the script's own first; and why there are no more, as a clause."""
        points: list[BatchPoint] = []
        # One trial group where it is known how equal processes differ here; else two show it.
        num_trial_groups = 1 if self._log.pooled("process") is not None else 2
        # A curve alone says nothing about training: the other half of the time is for the losses.
        for_losses_s = self._log.budget.left_s / 2
        size = self._before
        items = [loader.num_items for loader in self._known.loaders if loader.trained_on]
        most = min((number for number in items if number is not None), default=2**62) // _FEWEST_BATCHES
        while (size := 2 * size) <= most:
            if self._log.budget.left_s < for_losses_s + num_trial_groups * self._executor.estimate_s():
                return tuple(points), "; the time for more sizes was over"
            self._log.doing(f"timing batches of {size}")
            effect = Effect(Arm(installed=(self._spec(size),)))
            rule = Rule(planned=num_trial_groups, patient=True)
            compare(self._executor, Comparison(effects=[effect], design=Design(stack=self._stack), rule=rule))
            if effect.failure is not None:
                return tuple(points), f"; with {size} {effect.failure.why}"
            if not points:
                base = effect.runs[0][0]
                points.append(BatchPoint(size=self._before, samples_per_s=_samples_a_step(base) / fmean(base.step_s)))
            growth = fmean(_samples_a_step(run) / _samples_a_step(base) for base, run in effect.runs)
            faster = growth * math.exp(effect.mean)
            points.append(BatchPoint(size=size, samples_per_s=faster * points[0].samples_per_s))
            speed = [point.samples_per_s for point in points]
            if len(speed) > 2 and max(speed[-2:]) < _LITTLE * max(speed[:-2]):
                return tuple(points), ""
        return tuple(points), "; the data set has too few samples for more"

    def _judged(self, curve: tuple[BatchPoint, ...], ended: str) -> Recipe:
        """From the knee down: what a larger batch gains in samples a second it may lose in progress a sample."""
        size = knee(curve)
        why = f"The time was over before the losses under batches of {size} could be compared"
        if size <= self._before:
            none = "was timed" if len(curve) < 2 else "brings more samples a second worth speaking of"
            why = f"No larger batch {none}"
        while size > self._before:
            num_steps = self._affordable_steps()
            if num_steps < _LEAST_STEPS:
                break
            seeds = self._seeds(size, num_steps)
            if not isinstance(seeds, str):
                return self._ruled(curve, size, seeds)
            why = seeds
            size //= _STRIDE
        return Recipe(before=self._before, size=self._before, curve=curve, why=f"{why}{ended}.")

    def _seeds(self, size: int, num_steps: int) -> list[TimeToLoss] | str:
        """One comparison a seed; why, without a full stop, where one could not be made, or the first was lost."""
        seeds: list[TimeToLoss] = []
        for seed in range(_SEEDS):
            self._log.doing(f"timing how soon batches of {size} reach a loss ({seed + 1} of {_SEEDS})")
            one = self._seed(size, num_steps, seed)
            if isinstance(one, str):
                return one
            if one.before_s < LEAST_GAIN * one.after_s and not seeds:
                return f"With batches of {size} the same loss was reached no sooner"
            seeds.append(one)
        return seeds

    def _ruled(self, curve: tuple[BatchPoint, ...], size: int, seeds: Sequence[TimeToLoss]) -> Recipe:
        ratios = [math.log(one.before_s / one.after_s) for one in seeds]
        accepted = Rule(planned=len(ratios)).progress(ratios, None) is Progress.GAIN
        before_s, after_s = fmean(one.before_s for one in seeds), fmean(one.after_s for one in seeds)
        loss = fmean(one.loss for one in seeds)
        told = f"A loss of {loss:.4g} was reached in {duration(after_s)} instead of {duration(before_s)} of training"
        sure = "" if accepted else "; that cannot be told from chance"
        names = {optimizer.name.rpartition(".")[2] for optimizer in self._known.optimizers}
        return Recipe(
            before=self._before,
            size=size,
            rates={name: rate_factor(name, size / self._before) for name in sorted(names)},
            curve=curve,
            speedup=statistics.interval(ratios),
            accepted=accepted,
            why=f"{told}, over {len(seeds)} seeds{sure}. What the loss comes to in the end was not compared.",
        )

    def _affordable_steps(self) -> int:
        """The baseline's steps for each seed, so that all seeds of a size fit into what is left, and one more."""
        each_s = self._log.budget.left_s / (_SEEDS + 1) - 2 * self._executor.sizes.setup_s
        # In the worst case the larger batches are no faster a sample, and see all samples that they may.
        step_s = self._executor.sizes.step_s * (1 + _MORE_SAMPLES)
        return min(_MOST_STEPS, int(each_s / step_s))

    def _seed(self, size: int, num_steps: int, seed: int) -> TimeToLoss | str:
        common = self._log.script.plan(
            replace(self._log.options.plan, warmup=0, reseed=seed, order_seed=seed), self._stack
        )
        fewer = math.ceil(_MORE_SAMPLES * num_steps * self._before / size)
        plans = [replace(common, steps=num_steps), replace(common, steps=fewer, arms=((self._spec(size),),))]
        sizes = self._executor.sizes
        limit_s = 2 * (2 * sizes.setup_s + (1 + _MORE_SAMPLES) * num_steps * sizes.step_s) + 30.0
        ((base, larger),) = self._executor.together([Group(plans, turn=_LONG_TURN, limit_s=limit_s)])
        for name, run in (("the baseline", base), (f"batches of {size}", larger)):
            fell = failed(run)
            if fell is not None:
                return f"The comparison of losses broke off: with {name} {fell.why}"
        return times_to_loss(base, larger, growth=size / self._before)

    def _spec(self, size: int) -> LeverSpec:
        return BatchSize(before=self._before, size=size).spec()


def knee(curve: Sequence[BatchPoint]) -> int:
    """The smallest size that is nearly as fast as the fastest; the first one where none is clearly faster than it."""
    fastest = max((point.samples_per_s for point in curve), default=0.0)
    return next((point.size for point in curve if point.samples_per_s >= _NEARLY * fastest), 0)


def _samples_a_step(run: Run) -> float:
    known = [number for number in run.num_samples if number is not None]
    return fmean(known) if known else math.nan


def times_to_loss(base: Run, larger: Run, *, growth: float) -> TimeToLoss | str:
    """Both recorded from their first step on; `growth`: samples in a step of `larger` over those of `base`.

    A sentence without its full stop where they cannot be compared, or where the larger batches lost.
    """
    losses, others = _losses(base), _losses(larger)
    window = max(_FEWEST, int(_PART * len(losses)))
    other_window = max(1, round(window / growth))
    if not losses or not others:
        return "Losses were not all finite numbers, so there is none to compare by"
    if len(losses) < 3 * window or len(others) < 2 * other_window:
        return "Too few steps were made to compare the times to a loss"
    ratio = abs(others[0] / losses[0]) if losses[0] else math.inf
    if not 1 / _LIKE < ratio < _LIKE:
        return "The loss of a larger batch is not a mean over its samples, so losses cannot be compared"
    last = losses[-window:]
    target = fmean(last)
    if fmean(losses[:window]) - target < _CLEARLY * stdev(last) / math.sqrt(window):
        return "The baseline's loss hardly falls within the steps that there was time for: there is none to compare by"
    before_s, after_s = _time_to(base, losses, target, window), _time_to(larger, others, target, other_window)
    if after_s is None or before_s is None:
        return f"Larger batches did not reach a loss of {target:.4g} within twice the samples"
    return TimeToLoss(loss=target, before_s=before_s, after_s=after_s)


def _losses(run: Run) -> list[float]:
    """Of each step; empty unless all are finite numbers."""
    known = [loss for loss in map(as_float, run.loss) if loss is not None and math.isfinite(loss)]
    return known if len(known) == len(run.step_s) else []


def _time_to(run: Run, losses: list[float], target: float, window: int) -> float | None:
    """Seconds from the end of the first step until the mean loss of the last `window` steps is as low as `target`.

    The first step holds the start of the process, which is the same for both.
    """
    means = np.convolve(losses, np.ones(window) / window, mode="valid")
    reached = np.flatnonzero(means <= target + _ROUNDING * abs(target))
    return math.fsum(run.step_s[1 : window + int(reached[0])]) if len(reached) else None
