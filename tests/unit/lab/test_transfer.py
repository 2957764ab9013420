"""transfer: the 200 x 200 product, the sweep, and where the ways cross."""

import pytest

from hotlap.errors import UserError
from hotlap.lab import transfer
from hotlap.lab.result import Curves, Quantity, Result
from hotlap.lab.settings import Settings
from tests.unit.lab import samples


def told(*, gpu: str | None = None, asked: tuple[str, ...] = ()) -> Result:
    return transfer.tell(transfer.SIDES, samples.transfer_answer(gpu=gpu), Settings(gpu=asked))


def row(result: Result, way: str) -> tuple[Quantity, Quantity]:
    cells = next(row for row in result.tables[0].rows if row[0] == way)
    assert isinstance(cells[1], Quantity) and isinstance(cells[2], Quantity)
    return cells[1], cells[2]


def test_a_gpu_that_is_here_is_measured() -> None:
    result = told(gpu="Some GPU")
    time, gain = row(result, transfer.GPU)
    assert not time.predicted
    assert gain.value == pytest.approx((2e-6 + 2 * 200**3 / 100e9) / (10e-6 + 2 * 200**3 / 10e12), rel=0.01)
    assert result.gpus == ("Some GPU",)
    assert "The Some GPU here took" in result.story[0]


def test_a_gpu_that_is_not_here_is_predicted_with_intervals_and_said_so() -> None:
    result = told(asked=("RTX 3090",))
    for way in (transfer.GPU, transfer.PAGEABLE, transfer.PINNED):
        time, _ = row(result, way)
        assert time.predicted
        assert time.low is not None and time.high is not None
    assert not row(result, transfer.NUMPY)[0].predicted
    assert any("predictions for an RTX 3090" in note for note in result.notes)
    assert result.gpus == ()


def test_copies_cost_more_than_staying_there() -> None:
    result = told()
    alone, pinned, pageable = (row(result, way)[0].value for way in (transfer.GPU, transfer.PINNED, transfer.PAGEABLE))
    assert alone < pinned < pageable


def test_the_crossing_is_where_the_gpu_overtakes_the_cpu() -> None:
    # 2 + 2 n^3 / 1e5 us on the CPU meets 10 us (and hardly more) on the GPU at n = 74.
    result = told(gpu="Some GPU")
    assert "the GPU is ahead of this CPU from a side of about 7" in result.story[1]


def test_a_cpu_that_always_wins_is_said_to_win() -> None:
    answer = samples.transfer_answer(gpu="Some GPU")
    slow = {way: times if "GPU" not in way else ((1.0,) * 7,) * len(times) for way, times in answer.times.items()}
    from dataclasses import replace

    result = transfer.tell(transfer.SIDES, replace(answer, times=slow), Settings())
    assert "does not overtake this CPU up to 2048 x 2048" in result.story[1]


def test_the_picture_has_a_line_for_each_way() -> None:
    (picture,) = told().pictures
    assert isinstance(picture, Curves)
    assert [curve.name for curve in picture.curves] == list(transfer.ALL)
    assert [curve.predicted for curve in picture.curves] == [False, False, True, True, True]


def test_an_unknown_gpu_is_an_error() -> None:
    with pytest.raises(UserError):
        told(asked=("RTX 4091 Super Ultra",))
