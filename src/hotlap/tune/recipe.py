"""Larger batches, on request: samples a second over batch sizes, the knee, and whether a loss is reached sooner."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from hotlap.experiment import Arm, Design, EditedScript, Executor, Heat, Runs, Sizes, statistics
from hotlap.experiment.failure import failed
from hotlap.experiment.statistics import Progress
from hotlap.levers import BatchSize
from hotlap.levers.batch_size import batch_size_of, rate_factor
from hotlap.record import LEAST_GAIN, BatchPoint, LeverSpec, Machine, Recipe, Run
from hotlap.search import StudyLog, facts
from hotlap.tune.time_to_loss import TimeToLoss, times_to_loss
from hotlap.units import duration

# For one size of the curve: steps timed, in turns, after those in which the optimizer's state comes about.
_STEPS, _TURN, _WARMUP = 66, 11, 10

# Of the fastest size's samples a second; what lies beyond the knee brings less, and costs memory and progress a sample.
_NEARLY = 0.9

# Two doublings in a row that bring less than this end the curve.
_LITTLE = 1.05

# An epoch of fewer batches is hardly one of stochastic descent any more.
_FEWEST_BATCHES = 8

# Seeds, each once as written and once with the larger batches. Four are the fewest that may show a gain without a pool
# (statistics.can_stop).
_SEEDS = 4
# Steps as written whose losses are compared, at least and at most.
_LEAST_STEPS, _MOST_STEPS = 100, 4000
# With larger batches the training may take so many times as many samples to the same loss; who needs more has lost.
_MORE_SAMPLES = 2.0
_LONG_TURN = 50
# From a size that lost to the next one.
_STRIDE = 4


class Recipes:
    """One study of batch sizes, on top of the levers that were accepted."""

    def __init__(self, log: StudyLog, runs: Runs, sizes: Sizes, machine: Machine, script: EditedScript) -> None:
        self._log = log
        short = replace(sizes, block=_TURN, steps=_STEPS, warmup=_WARMUP)
        self._executor = Executor(runs, log.options.plan, short, script=script)
        self._script = script
        self._sizes = sizes
        self._known = facts(log.study)
        self._rejected = BatchSize().rejects(self._known, machine)
        self._before = batch_size_of(self._known) or 0
        result = log.study.result
        self._stack = result.levers if result is not None else ()

    def study(self) -> None:
        """Write into the study what larger batches come to."""
        if self._rejected is not None:
            self._note(Recipe(before=self._before, size=self._before, why=f"Not tried. {self._rejected}"))
            return
        curve, ended = self._curve()
        size = knee(curve)
        if size == self._before:
            why = f"No larger batch brings more samples a second worth speaking of{ended}."
            self._note(Recipe(before=size, size=size, curve=curve, why=why))
            return
        self._judge(curve, size, ended)

    # Throughput

    def _curve(self) -> tuple[tuple[BatchPoint, ...], str]:
        """Sizes that ran, the script's own first; and why there are no more, as a clause."""
        points: list[BatchPoint] = []
        # A curve alone says nothing about training: the other half of the time is for the losses.
        for_losses_s = self._log.budget.left_s / 2
        for size in self._sizes_to_try():
            if self._log.budget.left_s < for_losses_s + self._rounds() * self._sizes.heat_s(2):
                return tuple(points), "; the time for more sizes was over"
            self._log.doing(f"timing batches of {size}")
            heats = [self._heat(size) for _ in range(self._rounds())]
            fell = next((why for heat in heats for why in (*heat.failures, heat.base_failure) if why is not None), None)
            if fell is not None:
                return tuple(points), f"; with {size} {fell.why}"
            if not points:
                as_written = _samples_per_s(heats[0].runs[0])
                points.append(BatchPoint(size=self._before, samples_per_s=as_written, speedup=None))
            points.append(self._point(size, heats))
            if _is_flat(points):
                return tuple(points), ""
        return tuple(points), "; the data set has too few samples for more"

    def _sizes_to_try(self) -> Iterator[int]:
        items = [loader.num_items for loader in self._known.loaders if loader.trained_on]
        most = min((number for number in items if number is not None), default=2**62) // _FEWEST_BATCHES
        size = 2 * self._before
        while size <= most:
            yield size
            size *= 2

    def _heat(self, size: int) -> Heat:
        """Fresh processes at the script's own size and at `size`."""
        growth = size / self._before
        limit_s = 4 * (self._sizes.setup_s + (1 + growth) * (_STEPS + _WARMUP) * self._sizes.step_s) + 30.0
        design = Design(stack=self._stack, arms=(Arm(), Arm(levers=(self._spec(size),))))
        return self._executor.heat(design, limit_s=limit_s)

    def _rounds(self) -> int:
        """One where it is known how equal processes differ here; else two show it."""
        return 1 if self._log.pooled("process") is not None else 2

    def _point(self, size: int, heats: Sequence[Heat]) -> BatchPoint:
        ratios = [
            heat.log_ratios[0] + math.log(_samples_a_step(heat.runs[1]) / _samples_a_step(heat.runs[0]))
            for heat in heats
            if heat.log_ratios[0] is not None
        ]
        speedup = statistics.interval(ratios, pooled_variance=self._log.pooled("process")) if ratios else None
        samples_per_s = fmean(_samples_per_s(heat.runs[1]) for heat in heats)
        return BatchPoint(size=size, samples_per_s=samples_per_s, speedup=speedup)

    # Time to a loss

    def _judge(self, curve: tuple[BatchPoint, ...], size: int, ended: str) -> None:
        """From the knee down: what a larger batch gains in samples a second it may lose in progress a sample."""
        why = f"The time was over before the losses under batches of {size} could be compared"
        while size > self._before:
            num_steps = self._affordable_steps()
            if num_steps < _LEAST_STEPS:
                break
            seeds, lost = self._seeds(size, num_steps)
            if lost is None:
                self._note(self._ruled(self._recipe(curve, size), seeds))
                return
            why = lost
            size //= _STRIDE
        self._note(replace(self._recipe(curve, self._before), why=f"{why}{ended}."))

    def _recipe(self, curve: tuple[BatchPoint, ...], size: int) -> Recipe:
        names = {optimizer.name.rpartition(".")[2] for optimizer in self._known.optimizers}
        rates = {name: rate_factor(name, size / self._before) for name in sorted(names)}
        return Recipe(before=self._before, size=size, rates=rates, curve=curve)

    def _seeds(self, size: int, num_steps: int) -> tuple[list[TimeToLoss], str | None]:
        """One comparison a seed; none but the first where that was lost, and why, without a full stop."""
        seeds: list[TimeToLoss] = []
        for seed in range(_SEEDS):
            self._log.doing(f"timing how soon batches of {size} reach a loss ({seed + 1} of {_SEEDS})")
            one = self._seed(size, num_steps, seed)
            if isinstance(one, str):
                return seeds, one
            seeds.append(one)
            if one.before_s < LEAST_GAIN * one.after_s and seed == 0:
                return seeds, f"With batches of {size} the same loss was reached no sooner"
        return seeds, None

    def _ruled(self, recipe: Recipe, seeds: Sequence[TimeToLoss]) -> Recipe:
        ratios = [math.log(one.before_s / one.after_s) for one in seeds]
        progress = statistics.can_stop(ratios, pooled_variance=None, planned=len(ratios), line=LEAST_GAIN)
        accepted = progress is Progress.GAIN
        before_s, after_s = fmean(one.before_s for one in seeds), fmean(one.after_s for one in seeds)
        loss = fmean(one.loss for one in seeds)
        told = f"A loss of {loss:.4g} was reached in {duration(after_s)} instead of {duration(before_s)} of training"
        sure = "" if accepted else "; that cannot be told from chance"
        return replace(
            recipe,
            loss=loss,
            before_s=before_s,
            after_s=after_s,
            speedup=statistics.interval(ratios),
            accepted=accepted,
            why=f"{told}, over {len(seeds)} seeds{sure}. What the loss comes to in the end was not compared.",
        )

    def _affordable_steps(self) -> int:
        """Steps as written for each seed, so that all seeds of a size fit into what is left, and one of the next."""
        each_s = self._log.budget.left_s / (_SEEDS + 1) - 2 * self._sizes.setup_s
        # In the worst case the larger batches are no faster a sample, and see all samples that they may.
        step_s = self._sizes.step_s * (1 + _MORE_SAMPLES)
        return min(_MOST_STEPS, int(each_s / step_s))

    def _seed(self, size: int, num_steps: int, seed: int) -> TimeToLoss | str:
        common = replace(self._log.options.plan, warmup=0, reseed=seed)
        fewer = math.ceil(_MORE_SAMPLES * num_steps * self._before / size)
        plan = self._script.plan(replace(common, steps=num_steps), self._stack)
        other = self._script.plan(replace(common, steps=fewer), (*self._stack, self._spec(size)))
        limit_s = 2 * (2 * self._sizes.setup_s + (1 + _MORE_SAMPLES) * num_steps * self._sizes.step_s) + 30.0
        base, larger = self._executor.together([plan, other], turn=_LONG_TURN, limit_s=limit_s)
        for name, run in (("the script as written", base), (f"batches of {size}", larger)):
            fell = failed(run)
            if fell is not None:
                return f"The comparison of losses broke off: with {name} {fell.why}"
        return times_to_loss(base, larger, growth=size / self._before)

    # Both

    def _spec(self, size: int) -> LeverSpec:
        return BatchSize(before=self._before, size=size).spec()

    def _note(self, recipe: Recipe) -> None:
        self._log.change("recipe", recipe=recipe)


def knee(curve: Sequence[BatchPoint]) -> int:
    """The smallest size that is nearly as fast as the fastest; the first one where none is clearly faster than it."""
    if not curve:
        return 0
    speed = _speed(curve)
    return next(point.size for point, one in zip(curve, speed, strict=True) if one >= _NEARLY * max(speed))


def _speed(curve: Sequence[BatchPoint]) -> list[float]:
    """Samples a second over those of the first; as compared beside it, where that was possible."""
    return [
        point.speedup.mid if point.speedup is not None else point.samples_per_s / curve[0].samples_per_s
        for point in curve
    ]


def _is_flat(points: Sequence[BatchPoint]) -> bool:
    if len(points) < 3:
        return False
    speed = _speed(points)
    return max(speed[-2:]) < _LITTLE * max(speed[:-2])


def _samples_a_step(run: Run) -> float:
    known = [number for number in run.num_samples if number is not None]
    return fmean(known) if known else math.nan


def _samples_per_s(run: Run) -> float:
    return _samples_a_step(run) / fmean(run.step_s)
