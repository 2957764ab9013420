"""A run whose arms took turns -> the part of it that belongs to one arm."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from hotlap.record.run import Run

_T = TypeVar("_T")


def of_arm(run: Run, arm: int) -> Run:
    """The steps made under `arm`, as a run of its own. Evidence is not kept: arms share one training."""
    places = [i for i, which in enumerate(run.arm) if which == arm]
    place_of = {old: new for new, old in enumerate(places)}

    def pick(values: Sequence[_T]) -> tuple[_T, ...]:
        return tuple(values[i] for i in places) if values else ()

    return replace(
        run,
        arms=(run.arms[arm],),
        arm=(0,) * len(places),
        step_s=pick(run.step_s),
        phase_s={phase: None if values is None else pick(values) for phase, values in run.phase_s.items()},
        block=pick(run.block),
        step_index=pick(run.step_index),
        epoch_starts=tuple(place_of[i] for i in run.epoch_starts if i in place_of),
        loss=pick(run.loss),
        num_samples=pick(run.num_samples),
        num_updates=pick(run.num_updates),
        first_steps_s=(),
        learning_rates=None,
        batch_digest=None,
        rng_digest=None,
        settings_digest=None,
        updates=None,
    )
