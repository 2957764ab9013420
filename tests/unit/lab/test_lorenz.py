"""lorenz: one neural ODE with several libraries."""

from collections.abc import Sequence

import pytest

from hotlap.lab import lorenz
from hotlap.lab.lorenz import DIFFRAX, FIT, ODEINT, TORCHDIFFEQ, Answer
from hotlap.lab.result import Quantity, Result
from hotlap.lab.settings import Settings
from tests.unit.lab import samples

LOSSES = tuple(100.0 / (k + 1) for k in range(1000))


def found(*, without: Sequence[str] = ()) -> dict[str, list[Answer]]:
    ways = {
        TORCHDIFFEQ: samples.training(30e-3, LOSSES[:200]),
        DIFFRAX: samples.training(500e-6, LOSSES),
        ODEINT: samples.training(1e-3, LOSSES),
        FIT: samples.training(20e-6, LOSSES),
    }
    return {way: [one] * 3 for way, one in ways.items() if way not in without}


def told(*, without: Sequence[str] = (), there: Answer | None = None) -> Result:
    return lorenz.tell(found(without=without), Settings(), missing=without, there=there)


def test_the_native_fit_is_so_many_times_as_fast_with_an_interval() -> None:
    result = told()
    assert "20.0 us (19.6 us to 20.4 us) with hotlap.small" in result.story[0]
    ratios = {row[0]: row[3] for row in result.tables[0].rows}
    fit = ratios[FIT]
    assert isinstance(fit, Quantity) and fit.low is not None
    assert fit.low < 1500 == pytest.approx(fit.value)
    assert ratios[TORCHDIFFEQ] is None


def test_a_library_that_is_not_installed_is_left_out_and_named() -> None:
    result = told(without=(TORCHDIFFEQ, DIFFRAX))
    assert [row[0] for row in result.tables[0].rows][:2] == [ODEINT, FIT]
    assert any("pip install diffrax optax" in note for note in result.notes)
    assert any("pip install torchdiffeq" in note for note in result.notes)


def test_the_gpu_is_predicted_from_the_operators_of_the_slow_loop() -> None:
    last = told().tables[0].rows[-1]
    assert last[0] == "torchdiffeq on an RTX 4090"
    assert isinstance(last[2], Quantity)
    assert last[2].predicted
    # 4,000 operators of 5 us host time each: no GPU is faster than its host.
    assert 0.8 * 20e-3 < last[2].value < 80e-3


def test_a_gpu_that_is_here_is_measured() -> None:
    last = told(there=samples.training(90e-3, LOSSES[:50], gpu="Some GPU")).tables[0].rows[-1]
    assert last[0] == "torchdiffeq on a Some GPU"
    assert isinstance(last[2], Quantity)
    assert not last[2].predicted
    assert last[2].value == pytest.approx(90e-3)


def test_a_missing_native_core_is_told() -> None:
    ways = {
        FIT: [samples.training(20e-3, LOSSES, native=False)],
        ODEINT: [samples.training(30e-3, LOSSES, native=False)],
    }
    result = lorenz.tell(ways, Settings(), missing=(TORCHDIFFEQ, DIFFRAX), there=None)
    assert any("without its native core" in note for note in result.notes)
