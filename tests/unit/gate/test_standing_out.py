"""One parameter of many that differs beyond chance: what is found, and how often where nothing differs."""

from dataclasses import replace

import numpy as np
import pytest

from hotlap.gate.evidence import Pair
from hotlap.gate.standing_out import Measure, Sides, Trait
from hotlap.record import Run, Status, Update

PARAMETERS, STEPS = 200, 10


def pair() -> Pair:
    """Two runs with updates of many parameters."""
    updates = tuple(Update(step=k, norms=(1.0,) * PARAMETERS, changed=(1.0,) * PARAMETERS) for k in range(STEPS))
    run = Run(status=Status.COMPLETE, step_index=tuple(range(STEPS)), updates=updates)
    return Pair(run, run)


def trait(measure: Measure, *, one_sided: bool) -> Trait:
    return Trait(measure=measure, floor=1e-6, say=lambda p, size: f"{p} {size}", one_sided=one_sided)


@pytest.mark.parametrize("one_sided", [False, True])
def test_noise_in_hundreds_of_parameters_hardly_ever_stands_out(one_sided: bool) -> None:
    """The chance of 1% is that of all of them together."""
    rng = np.random.default_rng(3)
    found = [
        Sides([pair()]).harm(trait(lambda *_: rng.normal(0, 0.1, PARAMETERS).tolist(), one_sided=one_sided))
        for _ in range(50)
    ]
    assert sum(one is not None for one in found) <= 3


@pytest.mark.parametrize("one_sided", [False, True])
def test_the_one_that_differs_is_named_with_how_far(one_sided: bool) -> None:
    rng = np.random.default_rng(3)

    def row(*_: Update) -> list[float]:
        noise: list[float] = rng.normal(0, 0.1, PARAMETERS).tolist()
        return [x + 0.5 * (p == 17) for p, x in enumerate(noise)]

    found = Sides([pair()]).harm(trait(row, one_sided=one_sided))
    assert found is not None and found.by_chance
    which, size = found.why.split()
    assert int(which) == 17
    assert float(size) == pytest.approx(0.5, abs=0.1)


def test_first_updates_are_compared_where_both_keep_what_is_dropped_later() -> None:
    one, first_alone = pair(), trait(lambda mine, _: [0.5 * (mine.step == 0)] * PARAMETERS, one_sided=False)
    several = [Pair(replace(one.base, seed=k), one.lever) for k in range(4)]
    assert Sides(several).harm_at_first(first_alone) is not None
    by_hand = [Pair(replace(two.base, dropouts=((0.3, 2, 640),)), two.lever) for two in several]
    assert Sides(by_hand).harm_at_first(first_alone) is None
