"""One parameter of many that differs beyond chance: what is found, and how often where nothing differs."""

import numpy as np
import pytest

from hotlap.gate.evidence import Pair
from hotlap.gate.standing_out import in_all_or_first
from hotlap.record import Run, Status, Update

PARAMETERS, STEPS = 200, 10


def pair() -> Pair:
    """Two runs with updates of many parameters."""
    updates = tuple(Update(step=k, norms=(1.0,) * PARAMETERS, changed=(1.0,) * PARAMETERS) for k in range(STEPS))
    run = Run(status=Status.COMPLETE, step_index=tuple(range(STEPS)), updates=updates)
    return Pair(run, run)


@pytest.mark.parametrize("one_sided", [False, True])
def test_noise_in_hundreds_of_parameters_hardly_ever_stands_out(one_sided: bool) -> None:
    """The chance of 1% is that of all of them together."""
    rng = np.random.default_rng(3)
    found = [
        in_all_or_first(
            [pair()], [], lambda *_: rng.normal(0, 0.1, PARAMETERS).tolist(), floor=1e-6, one_sided=one_sided
        )
        for _ in range(50)
    ]
    assert sum(one is not None for one in found) <= 3


@pytest.mark.parametrize("one_sided", [False, True])
def test_the_one_that_differs_is_named_with_how_far(one_sided: bool) -> None:
    rng = np.random.default_rng(3)

    def row(*_: Update) -> list[float]:
        noise: list[float] = rng.normal(0, 0.1, PARAMETERS).tolist()
        return [x + 0.5 * (p == 17) for p, x in enumerate(noise)]

    found = in_all_or_first([pair()], [], row, floor=1e-6, one_sided=one_sided)
    assert found is not None
    assert found[0] == 17
    assert found[1] == pytest.approx(0.5, abs=0.1)
