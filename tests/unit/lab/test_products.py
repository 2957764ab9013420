"""What a product would take on a GPU that is not here."""

import pytest

from hotlap.lab.products import Shape, predicted
from hotlap.lab.result import Quantity


def there(shape: Shape, *, host_s: float = 5e-6, copied: bool = False) -> Quantity:
    return predicted(shape, "RTX 4090", host_s=host_s, copied=copied)


def test_a_tiny_call_costs_what_dispatching_it_costs() -> None:
    quick, slow = (there((8, 8, 8), host_s=host_s) for host_s in (20e-6, 80e-6))
    assert slow.value == pytest.approx(4 * quick.value, rel=0.2)
    assert there((8, 8, 1), host_s=1e-9).value < there((8, 8, 1), host_s=20e-6).value


def test_a_large_call_costs_its_arithmetic() -> None:
    large, twice = there((4096, 4096, 4096)), there((8192, 4096, 4096))
    assert twice.value == pytest.approx(2 * large.value, rel=0.1)


def test_copies_cost_their_calls_and_their_bytes() -> None:
    assert there((8, 8, 8), copied=True).value == pytest.approx(4 * there((8, 8, 8)).value, rel=0.2)
    # 768 MB over a slot of 32 GB/s.
    assert there((8000, 8000, 8000), copied=True).value - there((8000, 8000, 8000)).value > 768e6 / 32e9


def test_everything_predicted_has_an_interval_around_it() -> None:
    for copied in (False, True):
        one = there((200, 200, 200), copied=copied)
        assert one.predicted
        assert one.low is not None and one.high is not None
        assert one.low < one.value < one.high
