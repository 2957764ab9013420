"""lorenz: torchdiffeq's loop, what the patch makes of it, and the GPU that does not help."""

from dataclasses import replace

import pytest

from hotlap.errors import UserError
from hotlap.lab import gpus, lorenz
from hotlap.lab.result import Quantity, Result, Unit
from hotlap.lab.settings import Settings
from hotlap.record import Study
from tests.samples import study_full
from tests.unit.lab import samples

THERE = Quantity(value=0.02, unit=Unit.SECOND, low=0.01, high=0.04, predicted=True)


def told(study: Study, *, predicted: bool = True) -> Result:
    gpu = gpus.Gpu(name="RTX 4090", predicted=predicted)
    there = replace(THERE, predicted=predicted)
    return lorenz.tell(study, samples.workload(num_operators=4000), gpu=gpu, there=there)


def test_ratios_are_those_of_the_study_with_their_intervals() -> None:
    study = study_full()
    assert study.result is not None
    (row,) = (row for row in told(study).tables[0].rows if row[0] == "with hotlap's patch")
    assert isinstance(row[2], Quantity) and (row[2].low, row[2].high) == (
        study.result.speedup.low,
        study.result.speedup.high,
    )
    assert "95% interval" in told(study).story[0]


def test_without_a_patch_there_is_no_ratio() -> None:
    result = told(replace(study_full(), result=None, patch="", after=None))
    assert all(row[2] is None and row[3] is None for row in result.tables[0].rows)
    assert "found no patch here in its time" in result.story[0]


def test_the_loop_is_told_by_its_operators_and_the_gpu_beside_it() -> None:
    result = told(study_full())
    assert "4,000 operators" in result.story[1]
    assert "would take ~20.0 ms (10.0 ms to 40.0 ms) an iteration on an RTX 4090" in result.story[1]
    assert result.tables[0].rows[-1][0] == "torchdiffeq on an RTX 4090"
    assert any("predictions" in note for note in result.notes)


def test_a_gpu_that_is_here_is_no_prediction() -> None:
    result = told(study_full(), predicted=False)
    assert result.gpus == ("RTX 4090",)
    assert not any("predictions" in note for note in result.notes)


def test_without_torchdiffeq_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lorenz, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install torchdiffeq"):
        lorenz.run(Settings(), samples.nothing)
