"""devices: the same training on both, and the size of model that turns the tables."""

from dataclasses import replace
from typing import Any

import pytest

from hotlap.lab import devices, gpus
from hotlap.lab.result import Quantity, Result, Unit
from hotlap.lab.settings import Settings
from hotlap.record import Ceiling, Interval
from tests.samples import study_full


def size(hidden: int, *, predicted: bool) -> devices.Size:
    """2 ms for each batch; 0.3 ms and 1 us a hidden unit on the CPU; 0.6 ms on the GPU."""

    def near(value: float, *, predicted: bool = False) -> Quantity:
        return Quantity(value=value, unit=Unit.SECOND, low=0.99 * value, high=1.01 * value, predicted=predicted)

    return devices.Size(
        hidden=hidden,
        step=near(2.3e-3 + 1e-6 * hidden),
        waits_s=2e-3,
        there=near(2.6e-3, predicted=predicted),
        kept=near(0.6e-3, predicted=predicted),
    )


def told(*, predicted: bool = False) -> Result:
    sizes = [size(hidden, predicted=predicted) for hidden in devices.HIDDEN]
    ceiling = Ceiling(name="input", idealised="batches", step_s=1e-3, speedup=Interval(low=2.1, mid=2.3, high=2.5))
    return devices.tell(
        sizes,
        Settings(),
        gpu=gpus.Gpu(name="RTX 4090", predicted=predicted),
        study=replace(study_full(), ceilings=(ceiling,)),
        about_data="The data are bundled.",
    )


def cells(result: Result, at: int) -> list[Any]:
    return [row[at] for row in result.tables[0].rows]


def test_ten_epochs_are_all_their_steps() -> None:
    result = told()
    assert cells(result, 4)[0].value == pytest.approx(cells(result, 1)[0].value * 9380)


def test_the_gpu_is_ahead_from_the_size_at_which_its_interval_lies_below() -> None:
    # 0.3 ms + 1 us a unit meets 0.6 ms at 300 units: of those tried, 512 is the first above.
    assert "ahead of this CPU from 512 hidden units on as it is, and from 512 hidden units on" in told().story[2]


def test_a_gpu_that_is_not_here_is_predicted() -> None:
    result = told(predicted=True)
    assert all(cell.predicted for cell in cells(result, 3))
    assert any("predictions for an RTX 4090" in note for note in result.notes)
    assert "would take" in result.story[0]


def test_free_batches_bound_what_any_device_brings_with_their_interval() -> None:
    assert "2.1" in told().story[1] and "2.5" in told().story[1]
