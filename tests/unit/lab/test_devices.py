"""devices: the same training on both, and the size of model that turns the tables."""

from typing import Any

import pytest

from hotlap.lab import devices
from hotlap.lab.result import Quantity, Result
from hotlap.lab.settings import Settings
from tests.unit.lab import samples


def size(hidden: int, *, on_gpu: bool) -> devices.Size:
    """2 ms for each batch; 0.3 ms and 1 us a hidden unit on the CPU; 0.6 ms on the GPU."""
    return devices.Size(
        hidden=hidden,
        step_s=2.3e-3 + 1e-6 * hidden,
        waits_s=2e-3,
        gpu_step_s=2.6e-3 if on_gpu else None,
        gpu_waits_s=2e-3 if on_gpu else None,
        work=None if on_gpu else samples.workload(flop=1e5 * hidden),
    )


def told(*, gpu: str | None = None, whole_s: float | None = 25.0) -> Result:
    sizes = [size(hidden, on_gpu=gpu is not None) for hidden in devices.HIDDEN]
    return devices.tell(sizes, Settings(), gpu=gpu, whole_s=whole_s, about_data="The data are bundled.")


def cells(result: Result, at: int) -> list[Any]:
    return [row[at] for row in result.tables[0].rows]


def test_parameters_are_counted_with_their_biases() -> None:
    assert size(128, on_gpu=True).num_parameters == 784 * 128 + 128 + 128 * 10 + 10


def test_ten_epochs_are_all_their_steps() -> None:
    result = told(gpu="Some GPU")
    assert cells(result, 5)[0].value == pytest.approx(cells(result, 2)[0].value * 9380)


def test_the_crossing_is_at_the_size_where_both_take_as_long() -> None:
    # 0.3 ms + 1 us a unit meets 0.6 ms at 300 units, 238,510 parameters.
    text = told(gpu="Some GPU").story[2]
    assert "from about 2" in text
    number = int(text.split("from about ")[1].split(" ")[0].replace(",", ""))
    assert number == pytest.approx(238_510, rel=0.35)


def test_a_gpu_that_is_not_here_is_predicted() -> None:
    result = told()
    assert all(isinstance(cell, Quantity) and cell.predicted for cell in cells(result, 4))
    assert any("predictions for an RTX 4090" in note for note in result.notes)
    assert "By these predictions" in result.story[2]


def test_keeping_the_data_there_never_takes_longer() -> None:
    result = told()
    assert all(kept.value <= written.value for written, kept in zip(cells(result, 6), cells(result, 7), strict=True))


def test_what_was_trained_to_its_end_is_told_apart_from_what_was_counted() -> None:
    assert "took 25.0 s on this CPU" in told(gpu="Some GPU").story[0]
    assert "would take, by its measured steps" in told(gpu="Some GPU", whole_s=None).story[0]


def test_the_share_of_the_input_bounds_what_any_device_brings() -> None:
    # 2 of 2.428 ms.
    assert "82%" in told(gpu="Some GPU").story[1]
    assert "1.2x" in told(gpu="Some GPU").story[1]
