"""Larger batches, on request: samples a second over batch sizes, the knee, and whether a loss is reached sooner."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from hotlap import statistics
from hotlap.levers import BatchSize
from hotlap.levers.batch_size import batch_size_of, rate_factor
from hotlap.record import LEAST_GAIN, BatchPoint, LeverSpec, Machine, Plan, Recipe, Run, Turn
from hotlap.statistics import Progress
from hotlap.tune.desk import Desk
from hotlap.tune.failure import failed
from hotlap.tune.options import Runs
from hotlap.tune.part import facts
from hotlap.tune.sizes import Sizes
from hotlap.tune.time_to_loss import Race, race
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
_RACE_TURN = 50
# From a size that lost to the next one.
_STRIDE = 4


class Recipes:
    """One study of batch sizes, on top of the levers that were accepted."""

    def __init__(self, desk: Desk, runs: Runs, sizes: Sizes, machine: Machine) -> None:
        self._desk = desk
        self._runs = runs
        self._sizes = sizes
        self._known = facts(desk.study)
        self._rejected = BatchSize().rejects(self._known, machine)
        self._before = batch_size_of(self._known) or 0
        result = desk.study.result
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
        # A curve alone says nothing about training: the other half of the time is for the races.
        for_races_s = self._desk.left_s / 2
        for size in self._sizes_to_try():
            if self._desk.left_s < for_races_s + self._rounds() * self._sizes.expected_s(2):
                return tuple(points), "; the time for more sizes was over"
            self._desk.doing(f"timing batches of {size}")
            pairs = [self._pair(size) for _ in range(self._rounds())]
            fell = next((why for pair in pairs for run in pair[::-1] if (why := failed(run)) is not None), None)
            if fell is not None:
                return tuple(points), f"; with {size} {fell.why}"
            if not points:
                points.append(BatchPoint(size=self._before, samples_per_s=_samples_per_s(pairs[0][0]), speedup=None))
            points.append(self._point(size, pairs))
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

    def _pair(self, size: int) -> tuple[Run, Run]:
        """Fresh processes at the script's own size and at `size`; in turns where memory holds both."""
        plan = replace(self._plan(), steps=_STEPS, warmup=_WARMUP, block=_TURN)
        plans = [plan, self._with(plan, size)]
        growth = size / self._before
        limit_s = 4 * (self._sizes.setup_s + (1 + growth) * (_STEPS + _WARMUP) * self._sizes.step_s) + 30.0
        runs = self._together(plans, turn=_TURN, limit_s=limit_s)
        return runs[0], runs[1]

    def _rounds(self) -> int:
        """One where it is known how equal processes differ here; else two show it."""
        return 1 if self._desk.pooled("process") is not None else 2

    def _point(self, size: int, pairs: Sequence[tuple[Run, Run]]) -> BatchPoint:
        ratios = []
        for base, other in pairs:
            ratio = statistics.log_ratio_of_runs(base, other)
            if ratio is not None:
                ratios.append(ratio + math.log(_samples_a_step(other) / _samples_a_step(base)))
        speedup = statistics.interval(ratios, pooled_variance=self._desk.pooled("process")) if ratios else None
        samples_per_s = fmean(_samples_per_s(other) for _, other in pairs)
        return BatchPoint(size=size, samples_per_s=samples_per_s, speedup=speedup)

    # Time to a loss

    def _judge(self, curve: tuple[BatchPoint, ...], size: int, ended: str) -> None:
        """From the knee down: what a larger batch gains in samples a second it may lose in progress a sample."""
        why = f"The time was over before the losses under batches of {size} could be compared"
        while size > self._before:
            num_steps = self._affordable_steps()
            if num_steps < _LEAST_STEPS:
                break
            races, lost = self._races(size, num_steps)
            if lost is None:
                self._note(self._ruled(self._recipe(curve, size), races))
                return
            why = lost
            size //= _STRIDE
        self._note(replace(self._recipe(curve, self._before), why=f"{why}{ended}."))

    def _recipe(self, curve: tuple[BatchPoint, ...], size: int) -> Recipe:
        names = {optimizer.name.rpartition(".")[2] for optimizer in self._known.optimizers}
        rates = {name: rate_factor(name, size / self._before) for name in sorted(names)}
        return Recipe(before=self._before, size=size, rates=rates, curve=curve)

    def _races(self, size: int, num_steps: int) -> tuple[list[Race], str | None]:
        """One race a seed; none but the first where that was lost, and why, without a full stop."""
        races: list[Race] = []
        for seed in range(_SEEDS):
            self._desk.doing(f"timing how soon batches of {size} reach a loss ({seed + 1} of {_SEEDS})")
            one = self._race(size, num_steps, seed)
            if isinstance(one, str):
                return races, one
            races.append(one)
            if one.before_s < LEAST_GAIN * one.after_s and seed == 0:
                return races, f"With batches of {size} the same loss was reached no sooner"
        return races, None

    def _ruled(self, recipe: Recipe, races: Sequence[Race]) -> Recipe:
        ratios = [math.log(one.before_s / one.after_s) for one in races]
        progress = statistics.can_stop(ratios, pooled_variance=None, planned=len(ratios), line=LEAST_GAIN)
        accepted = progress is Progress.GAIN
        before_s, after_s = fmean(one.before_s for one in races), fmean(one.after_s for one in races)
        loss = fmean(one.loss for one in races)
        told = f"A loss of {loss:.4g} was reached in {duration(after_s)} instead of {duration(before_s)} of training"
        sure = "" if accepted else "; that cannot be told from chance"
        return replace(
            recipe,
            loss=loss,
            before_s=before_s,
            after_s=after_s,
            speedup=statistics.interval(ratios),
            accepted=accepted,
            why=f"{told}, over {len(races)} seeds{sure}. What the loss comes to in the end was not compared.",
        )

    def _affordable_steps(self) -> int:
        """Steps as written in each race, so that all races of a size fit into what is left, and one of the next."""
        each_s = self._desk.left_s / (_SEEDS + 1) - 2 * self._sizes.setup_s
        # In the worst case the larger batches are no faster a sample, and see all samples that they may.
        step_s = self._sizes.step_s * (1 + _MORE_SAMPLES)
        return min(_MOST_STEPS, int(each_s / step_s))

    def _race(self, size: int, num_steps: int, seed: int) -> Race | str:
        plan = replace(self._plan(), steps=num_steps, warmup=0, reseed=seed)
        fewer = math.ceil(_MORE_SAMPLES * num_steps * self._before / size)
        other = replace(self._with(plan, size), steps=fewer)
        limit_s = 2 * (2 * self._sizes.setup_s + (1 + _MORE_SAMPLES) * num_steps * self._sizes.step_s) + 30.0
        base, larger = self._together([plan, other], turn=_RACE_TURN, limit_s=limit_s)
        for name, run in (("the script as written", base), (f"batches of {size}", larger)):
            fell = failed(run)
            if fell is not None:
                return f"The race to a loss broke off: with {name} {fell.why}"
        return race(base, larger, growth=size / self._before)

    # Both

    def _together(self, plans: Sequence[Plan], *, turn: int, limit_s: float) -> list[Run]:
        if self._sizes.together >= len(plans):
            turns = [replace(plan, turn=Turn(steps=turn, ready="", go="")) for plan in plans]
            return self._runs(turns, limit_s=limit_s)
        return [self._runs([plan], limit_s=limit_s)[0] for plan in plans]

    def _with(self, plan: Plan, size: int) -> Plan:
        spec: LeverSpec = BatchSize(before=self._before, size=size).spec()
        return replace(plan, always=(*plan.always, spec))

    def _plan(self) -> Plan:
        options = self._desk.options
        return Plan(command=options.command, cwd=options.cwd, out="", always=self._stack, seed=options.seed)

    def _note(self, recipe: Recipe) -> None:
        self._desk.change("recipe", recipe=recipe)


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
