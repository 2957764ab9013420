"""lorenz: torchdiffeq's loop, what the patch makes of it, and the GPU that does not help."""

from dataclasses import replace

import pytest

from hotlap.errors import UserError
from hotlap.lab import Settings, gpus, lorenz
from hotlap.lab.result import Quantity, Result, sections
from hotlap.record import Study
from hotlap.report import terminal
from hotlap.units import factor
from tests.samples import study_full
from tests.unit.lab import samples

THERE = Quantity(value=0.02, low=0.01, high=0.04, predicted=True)


def told(study: Study, *, predicted: bool = True) -> Result:
    gpu = gpus.chosen(Settings(), () if predicted else ("RTX 4090",))
    there = replace(THERE, predicted=predicted)
    return lorenz.tell(study, samples.workload(num_operators=4000), gpu=gpu, there=there)


def test_a_terminal_names_no_study_that_was_not_kept() -> None:
    unfit = replace(study_full().trials[0], scope="none")
    study = replace(study_full(), trials=(*study_full().trials, unfit))
    shown = terminal.plain(sections(told(study)))
    assert "Trials" in shown and "cached-dataset" in shown
    assert "hotlap levers" not in shown and "hotlap apply" not in shown


def test_ratios_are_those_of_the_study_with_their_intervals() -> None:
    study = study_full()
    assert study.result is not None
    speedup = study.result.speedup
    assert f"{factor(speedup.mid)} as fast, 95% interval {factor(speedup.low)} to" in told(study).story[0]


def test_without_a_patch_there_is_no_ratio() -> None:
    result = told(replace(study_full(), result=None, patch="", after=None))
    assert "as fast" not in result.story[0]
    assert "found no patch here in its time" in result.story[0]


def test_the_loop_is_told_by_its_operators_and_the_gpu_beside_it() -> None:
    result = told(study_full())
    assert "4,000 operators" in result.story[1]
    assert "takes ~20.0 ms (10.0 to 40.0 ms) an iteration on the RTX 4090" in result.story[1]
    assert any("predictions" in note for note in result.notes)


def test_a_gpu_that_is_here_is_no_prediction() -> None:
    result = told(study_full(), predicted=False)
    assert not any("predictions" in note for note in result.notes)


def test_without_torchdiffeq_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lorenz, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install torchdiffeq"):
        lorenz.run(Settings(), samples.nothing)
