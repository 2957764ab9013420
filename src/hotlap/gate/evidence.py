"""What the gate looks at: baseline runs and runs with the lever, aligned by the step of the training."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.record import Number, Run, Update, Verdict, as_float

# Below this nothing is said. TraceML asks as many steps before it calls a verdict sure; a window of 20 also is the
# least in which the thirds and tenths that the contracts look at hold more than a step or two.
MIN_STEPS = 20
# More seeds than so many are looked at only where these settled nothing, or showed harm by chance. What both looks
# together may err by is spent on them in parts: the later one has this part of the first one's.
FIRST_SEEDS, LATER_PART = 5, 0.2
# Part of the loss that rounding leaves between equal ones.
STILL_SAME = 1e-4
# As the probe tells several modules of one class apart.
_VARIABLE = re.compile(r"^(\w+) \([^)]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the gate says, and from what."""

    verdict: Verdict
    why: str
    """One or two sentences: what was compared, how much of it, and what was not."""
    by_chance: bool = False
    """A statistical test says so, which is wrong now and then: other seeds may say otherwise."""


def harmed(why: str, *, by_chance: bool = False) -> Ruling:
    """A ruling of harm."""
    return Ruling(verdict=Verdict.HARMED, why=why, by_chance=by_chance)


def undecided(why: str, *, by_chance: bool = False) -> Ruling:
    """A ruling that nothing can be said. `by_chance`: more seeds may tell."""
    return Ruling(verdict=Verdict.UNDECIDED, why=why, by_chance=by_chance)


def unharmed(why: str) -> Ruling:
    """A ruling that training is as it was."""
    return Ruling(verdict=Verdict.UNHARMED, why=why)


@dataclass(frozen=True, slots=True)
class Pair:
    """A baseline run and a run with the lever that started from the same seed."""

    base: Run
    lever: Run

    def steps(self) -> list[tuple[int, int, int]]:
        """(step of the training, its position in base, its position in lever), for the steps that both recorded."""
        at = {step: j for j, step in enumerate(self.lever.step_index)}
        return [(step, i, at[step]) for i, step in enumerate(self.base.step_index) if step in at]

    def of_both(self, of: Callable[[Run], Sequence[Any] | None]) -> list[tuple[int, Any, Any]]:
        """(step of the training, value in base, value in lever) of what each step has; empty where one has none."""
        mine, other = of(self.base), of(self.lever)
        return [(step, mine[i], other[j]) for step, i, j in self.steps()] if mine and other else []

    def is_equal(self) -> bool:
        """All losses are known and bit-equal: both trained the same weights."""
        losses = self.of_both(lambda run: run.loss)
        return bool(losses) and all(mine == other is not None for _, mine, other in losses)

    def is_as_long(self) -> bool:
        """Both are known to compute in float32, and alike."""
        told = self.base.precision
        return told is not None and told == self.lever.precision and told.startswith("4 bytes")

    def first_loss_gap(self) -> float:
        """By what part of it the first loss is larger with the lever; NaN where it is not known on both sides."""
        losses = [as_float(run.loss[0]) if run.loss else None for run in (self.base, self.lever)]
        mine, other = (math.nan if loss is None else loss for loss in losses)
        return (other - mine) / abs(mine) if mine else math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All runs that bear on one lever; each recorded with `Plan.evidence`."""

    base: tuple[Run, ...]
    """Of the baseline, same seed. Two or more show whether the script is repeatable."""
    lever: tuple[Run, ...]
    """With the lever, the seed of `base`."""
    perturbed: tuple[Run, ...] = ()
    """Of the baseline, seed of `base`, with one-ulp perturbations or other thread counts: what rounding alone does."""
    rounded: tuple[Run, ...] = ()
    """Of the baseline, seed of `base`, two steps long: what a unit of bfloat16 in each parameter does to the second
    gradient."""
    base_seeds: tuple[Run, ...] = ()
    """Of the baseline, other seeds."""
    lever_seeds: tuple[Run, ...] = ()
    """With the lever, the seeds of `base_seeds`."""

    def in_one_order(self) -> "Evidence":
        """With parameters, and what else is followed, in the order of the first baseline run: a model that holds its
        layers in another order is the same model. What only one of them follows is left out."""
        if not self.base:
            return self
        first = self.base[0]
        return self.of_each(lambda run: _ordered(run, first))

    def of_each(self, change: Callable[[Run], Run]) -> "Evidence":
        """The same runs, each of them changed."""
        return Evidence(**{one.name: tuple(map(change, getattr(self, one.name))) for one in fields(self)})

    def same_seed_pairs(self) -> tuple[Pair, ...]:
        """The first baseline run beside each run with the lever."""
        return tuple(Pair(self.base[0], run) for run in self.lever) if self.base else ()

    def seed_pairs(self) -> tuple[Pair, ...]:
        """Baseline runs beside runs with the lever, by seed; each seed once."""
        waiting = list(_distinct((*self.base[:1], *self.base_seeds)))
        pairs = []
        for run in _distinct((*self.lever[:1], *self.lever_seeds)):
            match = next((b for b in waiting if b.seed == run.seed), None)
            if match is not None:
                waiting.remove(match)
                pairs.append(Pair(match, run))
        return tuple(pairs)

    def baseline(self) -> tuple[Run, ...]:
        """All runs without the lever: whatever they differ in among themselves is no harm of the lever's."""
        return (*self.base, *self.perturbed, *self.base_seeds)

    def references(self, pairs: Sequence[Pair]) -> tuple[Pair, ...]:
        """What baseline runs differ in among themselves, to set `pairs` against.

        Other seeds differ in more than rounding does, so they are left out where all pairs have the seed of the first.
        """
        same_seed = all(pair.base is self.base[0] for pair in pairs)
        others = (*self.base[1:], *self.perturbed) if same_seed else self.baseline()[1:]
        return tuple(Pair(self.base[0], run) for run in others)

    def with_lever(self) -> tuple[Run, ...]:
        """All runs with the lever."""
        return (*self.lever, *self.lever_seeds)


Differing = Callable[[Run, Run], Mapping[Any, str]]
"""(run of the baseline, another run) -> what differs, by a key, with the sentence that tells of it; the first in
front."""


def other_than(pairs: Sequence[Pair], baseline: Sequence[Run], differing: Differing) -> Ruling | None:
    """HARMED by the first thing that differs in a pair, and is the same in all of `baseline`."""
    own: set[Hashable] = {key for a, b in combinations(baseline, 2) for key in differing(a, b)}
    found = (item for pair in pairs for item in differing(pair.base, pair.lever).items())
    return next((harmed(why) for key, why in found if key not in own), None)


def spent(chance: float, num_pairs: int) -> float:
    """Of that chance of an error, what a look at so many pairs may have."""
    return chance if num_pairs <= FIRST_SEEDS else LATER_PART * chance


def is_finite(number: Number) -> bool:
    """True for a loss that was seen and is a number."""
    value = as_float(number)
    return value is not None and math.isfinite(value)


def not_finite_losses(run: Run) -> list[tuple[int, Number]]:
    """(step, loss) of those that were seen and are not."""
    losses = zip(run.step_index, run.loss, strict=False)
    return [(step, loss) for step, loss in losses if loss is not None and not is_finite(loss)]


def loss_matrix(runs: Sequence[Run]) -> tuple[list[int], NDArray[np.float64]]:
    """Runs -> (steps at which all of them have a finite loss, losses as (run, step))."""
    both = [zip(run.step_index, run.loss, strict=False) for run in runs]
    by_step = [{step: as_float(loss) for step, loss in losses if is_finite(loss)} for losses in both]
    steps = sorted(set.intersection(*(set(losses) for losses in by_step))) if by_step else []
    return steps, np.array([[losses[step] for step in steps] for losses in by_step], dtype=float)


def saw_epoch_end(runs: Iterable[Run]) -> bool:
    """True if some loader was started anew after the first recorded step in each of the runs."""
    return all(any(index > 0 for index in run.epoch_starts) for run in runs)


def extent(num_steps: int, runs: Iterable[Run]) -> str:
    """How much was compared: "200 steps, an epoch's end among them"."""
    runs = list(runs)
    end = "an epoch's end among them" if saw_epoch_end(runs) else "no epoch's end among them"
    if not any(run.epoch_starts for run in runs):
        end = "no loader to know an epoch's end by"
    return f"{num_steps} steps, {end}"


def _ordered(run: Run, first: Run) -> Run:
    """With its tensors in the order of `first`."""
    num_params, num_others = len(run.trained), len(run.untrained)
    params, others = _places(run.trained, first.trained), _places(run.untrained, first.untrained)
    if None in params or len(params) != num_params:
        params = [*range(num_params)]  # other parameters: by shape, as they stand
    if [*params, *others] == [*range(num_params + num_others)]:
        return run
    both = [*params, *(None if k is None else num_params + k for k in others)]
    places = {name: (num_params, params) for name in _OF_PARAMETERS}
    places |= {"buffers": (num_others, others), "directions": (num_params + num_others, both)}

    def picked(update: Update) -> Update:
        found = ((name, getattr(update, name), known, at) for name, (known, at) in places.items())
        moved: dict[str, Any] = {
            name: tuple(None if k is None else old[k] for k in at)
            for name, old, known, at in found
            if old and len(old) == known
        }
        return replace(update, **moved)

    return replace(run, updates=tuple(map(picked, run.updates or ())))


_OF_PARAMETERS = ("norms", "changed", "gradients", "filled", "starts", "projections", "residues", "departures")


def without_variable(name: str) -> str:
    """ "MLP (critic).0.weight" -> "MLP.0.weight": an edited script may hold it in another variable."""
    return _VARIABLE.sub(r"\1", name)


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int | None]:
    """Where in `names` each of `wanted` is, equal ones in their order; None where it is not, or where there are more of
    that name, or fewer: which of them it is cannot be told."""
    found: dict[int, int] = {}
    # An edited script may hold it in another variable, and a class may have another name.
    for told in (str, without_variable, lambda name: without_variable(name).partition(".")[2]):
        asked, there = defaultdict(list), defaultdict(list)
        for j in (j for j in range(len(wanted)) if j not in found):
            asked[told(wanted[j])].append(j)
        for k in {*range(len(names))} - {*found.values()}:
            there[told(names[k])].append(k)
        same = ((some, there[name]) for name, some in asked.items() if len(some) == len(there[name]))
        found |= {j: k for some, places in same for j, k in zip(some, sorted(places), strict=True)}
    return [found.get(j) for j in range(len(wanted))]


def _distinct(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Without runs that repeat the losses of an earlier one bit for bit: the same seed twice is no second witness."""
    first: dict[tuple[Number, ...], Run] = {}
    for run in runs:
        first.setdefault(run.loss, run)
    return tuple(first.values())
