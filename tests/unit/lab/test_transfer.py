"""transfer: the 200 x 200 product, the sweep, and from which size on the GPU is ahead."""

import pytest

from hotlap.errors import UserError
from hotlap.lab import Settings, products, transfer
from hotlap.lab.result import Quantity, Result
from tests.unit.lab import samples


def told(*, gpu: str | None = None, asked: tuple[str, ...] = ()) -> Result:
    answers = [samples.transfer_answer(gpu=gpu)] * 3
    return transfer.tell(products.told(transfer.SHAPES, answers, Settings(gpu=asked)))


def time_of(result: Result, way: str) -> Quantity:
    (table,) = result.tables
    cell = next(row for row in table.rows if row[0] == "200 x 200")[table.columns.index(way)]
    assert isinstance(cell, Quantity)
    return cell


def test_a_gpu_that_is_here_is_measured() -> None:
    result = told(gpu="Some GPU")
    time = time_of(result, products.GPU)
    assert not time.predicted
    assert time.value == pytest.approx(10e-6 + 2 * 200**3 / 10e12, rel=0.01)
    assert "The Some GPU takes" in result.story[0]


def test_a_gpu_that_is_not_here_is_predicted_with_intervals_and_said_so() -> None:
    result = told(asked=("RTX 3090",))
    for way in (products.GPU, products.COPIES):
        time = time_of(result, way)
        assert time.predicted
        assert time.low is not None and time.high is not None
    assert not time_of(result, products.NUMPY).predicted
    assert any("predictions for the RTX 3090" in note for note in result.notes)


def test_copies_cost_more_than_staying_there() -> None:
    result = told()
    alone, copied = (time_of(result, way).value for way in (products.GPU, products.COPIES))
    # Four calls in place of one, and 480 kB over a link of some 20 GB/s.
    assert copied > 2 * alone
    assert copied - alone > 0.48e6 / 32e9


def test_the_gpu_is_ahead_from_the_side_at_which_it_overtakes_the_cpu() -> None:
    # 2 + 2 n^3 / 1e5 us on the CPU meets 10 us (and hardly more) on the GPU at n = 74.
    assert "with the data there from 128 on" in told(gpu="Some GPU").story[1]


def test_an_unknown_gpu_is_an_error() -> None:
    with pytest.raises(UserError):
        told(asked=("RTX 4091 Super Ultra",))
