"""What single calls and copies would take on a GPU that is not here."""

import pytest

from hotlap.lab import gpu_times
from hotlap.lab.result import Quantity, Unit

GPU = "RTX 4090"


def ends(one: Quantity) -> tuple[float, float]:
    assert one.low is not None and one.high is not None
    return one.low, one.high


def test_a_product_has_the_operations_and_bytes_of_its_matrices() -> None:
    operator = gpu_times.product(100, 3, 1)
    assert operator.flop == 600
    assert operator.read_bytes == 4 * (300 + 3)
    assert operator.written_bytes == 400


def test_a_tiny_call_costs_what_dispatching_it_costs() -> None:
    tiny = gpu_times.product(8, 8, 8)
    quick = gpu_times.call(tiny, GPU, host_s=20e-6)
    slow = gpu_times.call(tiny, GPU, host_s=80e-6)
    assert slow.value == pytest.approx(4 * quick.value, rel=0.2)
    assert gpu_times.replayed(tiny, GPU).value < quick.value


def test_a_large_call_costs_its_arithmetic() -> None:
    large = gpu_times.call(gpu_times.product(4096, 4096, 4096), GPU, host_s=5e-6)
    twice = gpu_times.call(gpu_times.product(8192, 4096, 4096), GPU, host_s=5e-6)
    assert twice.value == pytest.approx(2 * large.value, rel=0.1)


def test_everything_predicted_has_an_interval_around_it() -> None:
    for one in (
        gpu_times.call(gpu_times.product(200, 200, 200), GPU, host_s=5e-6),
        gpu_times.copies([1e6], GPU, kind="pinned"),
        gpu_times.copies([1e6] * 3, GPU, kind="pageable"),
    ):
        low, high = ends(one)
        assert low < one.value < high
        assert one.predicted
        assert one.unit is Unit.SECOND


def test_pinned_memory_travels_faster_and_small_copies_cost_their_start() -> None:
    assert gpu_times.copies([1e8], GPU, kind="pinned").value < gpu_times.copies([1e8], GPU, kind="pageable").value
    nothing = gpu_times.copies([0.0, 0.0], GPU, kind="pinned")
    assert nothing.value == pytest.approx(2 * gpu_times.copies([0.0], GPU, kind="pinned").value)
    assert nothing.value > 0


def test_parts_one_after_the_other_add_up_with_their_ends() -> None:
    a = Quantity(value=1.0, unit=Unit.SECOND, low=0.5, high=2.0, predicted=True)
    whole = gpu_times.together(a, Quantity(value=1.0, unit=Unit.SECOND, low=1.0, high=1.0))
    assert (whole.value, whole.low, whole.high, whole.predicted) == (2.0, 1.5, 3.0, True)
