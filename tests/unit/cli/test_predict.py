"""`hotlap predict --trace`: a recorded step on other GPUs, without running anything."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli import forecast_table, traced
from hotlap.predict import forecast
from hotlap.record import CpuUse, Interval, Run, Status
from tests.unit.trace.test_workload import document


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.json").write_text(json.dumps(document()))
    return "trace.json"


def test_the_step_of_a_trace_is_forecast_from_the_gpu_that_it_ran_on(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["predict", "--trace", trace, "--gpu", "H100", "--gpu", "V100 SXM2 32GB", "--json", "-"]) == 0
    other, same = json.loads(capsys.readouterr().out)
    assert "H100" in other["device"]
    assert other["step_s"]["mid"] < same["step_s"]["mid"] == pytest.approx(1e-3, rel=0.05)


def test_several_gpus_need_the_size_of_the_model(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "--trace", trace, "--gpu", "H100", "--count", "1,2", "--json", "-"]
    assert cli.main(words) == 2
    assert "give --parameters" in capsys.readouterr().err
    assert cli.main([*words, "--parameters", "1e6"]) == 0
    assert [one["count"] for one in json.loads(capsys.readouterr().out)] == [1, 2]


def test_the_size_of_the_model_changes_nothing_on_one_gpu(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for given in ([], ["--parameters", "1e6"]):
        assert cli.main(["predict", "--trace", trace, "--gpu", "H100 PCIe", *given, "--json", "-"]) == 0
        found.append(json.loads(capsys.readouterr().out)[0]["step_s"])
    assert found[0] == found[1]


@pytest.mark.parametrize("words", [["--workload", "w.json"], ["train.py"]])
def test_one_source_at_a_time(words: list[str], trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["predict", "--trace", trace, *words]) == 2
    assert "one of them" in capsys.readouterr().err


def test_a_table_too_wide_for_the_terminal_is_two_with_the_gpus_in_each() -> None:
    columns = [("GPU", ["RTX 4090"]), ("step", ["1.00 ms"]), ("bound by", ["memory"]), ("fits", ["yes"])]
    assert forecast_table.parts(columns, width=31) == (columns,)  # a space behind each column
    assert forecast_table.parts(columns, width=30) == (columns[:3], [columns[0], columns[3]])


def test_a_chance_to_be_slower_is_that_of_the_interval() -> None:
    step_s = Interval(low=0.5, mid=1.0, high=3.0)
    chances = [forecast_table.slower_chance(step_s, than_s=than_s) for than_s in (0.5, 1.0, 3.0)]
    assert chances == pytest.approx([0.9, 0.5, 0.1], abs=1e-3)


@pytest.mark.parametrize(("main", "busy"), [(1.0, False), (0.4, True)])
def test_a_step_that_was_timed_on_a_busy_machine_is_told_as_such(main: float, busy: bool, trace: str) -> None:
    use = CpuUse(usable_cores=2.0, main=main, others=0.0, runnable=1.0)
    known = traced.recorded(trace, parameters=None, devices=())
    known = replace(known, run=Run(status=Status.COMPLETE, cpu=use))
    row = forecast_table.Row(prediction=forecast(known.work, target="H100"), batches=1.0)
    here, *_ = forecast_table.why(forecast_table.Shown(known=known, rows=(row,), steps_per_epoch=None))
    assert ("The machine was busy: training had a core for 40%" in here) is busy
