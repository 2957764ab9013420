"""devices: the same training on both, and the size of model that turns the tables."""

from typing import Any

from hotlap.lab import Settings, devices, gpus
from hotlap.lab.result import Quantity, Result


def size(hidden: int, *, predicted: bool) -> devices.Size:
    """2 ms for each batch; 0.3 ms and 1 us a hidden unit on the CPU; 0.6 ms on the GPU."""

    def near(value: float, *, predicted: bool = False) -> Quantity:
        return Quantity(value=value, low=0.99 * value, high=1.01 * value, predicted=predicted)

    there, kept = near(2.6e-3, predicted=predicted), near(0.6e-3, predicted=predicted)
    return hidden, near(2.3e-3 + 1e-6 * hidden), Quantity(value=2e-3), there, kept


def told(*, predicted: bool = False) -> Result:
    sizes = [size(hidden, predicted=predicted) for hidden in devices.HIDDEN]
    return devices.tell(sizes, gpu=gpus.chosen(Settings(), () if predicted else ("RTX 4090",)))


def cells(result: Result, at: int) -> list[Any]:
    return [row[at] for row in result.tables[0].rows]


def test_ten_epochs_are_all_their_steps() -> None:
    # 9,380 steps of 2.43 ms with 128 hidden units.
    assert "Ten epochs with 128 hidden units take 22.8 s (22.5 to 23.0 s) on this CPU" in told().story[0]


def test_the_gpu_is_ahead_from_the_size_at_which_its_interval_lies_below() -> None:
    # 2.3 ms + 1 us a unit meets 2.6 ms at 300 units: of those tried, 512 is the first above.
    assert "ahead of this CPU from 512 hidden units on, by the intervals" in told().story[1]


def test_a_gpu_that_is_not_here_is_predicted() -> None:
    result = told(predicted=True)
    assert all(cell.predicted for cell in cells(result, 3))
    assert any("predictions for the RTX 4090" in note for note in result.notes)
    assert "The RTX 4090 takes ~" in result.story[0]
