"""`hotlap compare`: what it refuses, what it says, and with which exit code."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli.compare import share
from hotlap.cli.options import REGRESSION
from hotlap.errors import UserError
from hotlap.record import Change, Comparison, Study, decode, save
from tests.sample_measured import study_measured
from tests.samples import run_with, study_empty, study_full
from tests.unit.trace.test_workload import document
from tests.unit.trace.written import Written


def study(step_s: float, *, seed: int = 0, spread: tuple[float, ...] = (0.004, -0.006, 0.003)) -> Study:
    """One whose runs differ from each other by `spread`."""
    measured = study_measured()
    noise = tuple(replace(one, log_ratios=spread) for one in measured.noise) if spread else ()
    return replace(measured, baseline=(run_with(step_s=step_s, jitter=0.05, num_steps=200, seed=seed),), noise=noise)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compare(folder: Path, base: Study, other: Study, *words: str) -> int:
    save(base, folder / "a" / "study.json")
    save(other, folder / "b.json")
    return cli.main(["compare", *words, "a", "b.json"])


def test_a_clear_regression_has_an_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(folder, study(0.010), study(0.0125, seed=1), "--max-regression", "5%") == REGRESSION
    out = capsys.readouterr().out
    assert "Regression: the step is slower by more than 5%." in out
    assert "+25" in out
    assert "input" in out


def test_the_same_speed_is_no_regression(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(folder, study(0.010), study(0.010, seed=1), "--max-regression", "5%") == 0
    assert "No regression" in capsys.readouterr().out


def test_what_cannot_be_told_is_said_plainly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noisy = (0.09, -0.11, 0.08)
    assert (
        compare(folder, study(0.010, spread=noisy), study(0.0107, seed=1, spread=noisy), "--max-regression", "5") == 0
    )
    out = capsys.readouterr().out
    assert "Undecided" in out
    assert "--steps" in out


def test_without_a_limit_a_slower_step_is_told_and_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(folder, study(0.010), study(0.0125, seed=1)) == 0
    assert "Slower." in capsys.readouterr().out
    assert compare(folder, study(0.0125), study(0.010, seed=1)) == 0
    assert "Faster." in capsys.readouterr().out


def test_an_unknown_spread_between_runs_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare(folder, study(0.010, spread=()), study(0.010, seed=1, spread=()))
    assert "how far one run differs from the next is not known" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"command": ("other.py",)}, "script and arguments: train.py --epochs 3 and other.py"),
        ({"device": "NVIDIA T4"}, "device: cpu and NVIDIA T4"),
        ({"versions": {"torch": "2.6.0"}}, "torch: 2.13.0 and 2.6.0"),
        ({"num_samples": (32,) * 200}, "samples a step: 64 and 32"),
        ({"world_size": 2}, "processes that train together: 1 and 2"),
    ],
)
def test_what_differs_is_refused_and_named(
    folder: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], says: str
) -> None:
    other = study(0.010)
    if "command" in change:
        other = replace(other, **change)  # type: ignore[arg-type]
    else:
        other = replace(other, baseline=(replace(other.baseline[0], **change),))  # type: ignore[arg-type]
    assert compare(folder, study(0.010), other) == 2
    assert says in capsys.readouterr().err
    assert compare(folder, study(0.010), other, "--allow-different") == 0
    assert says in capsys.readouterr().out


def test_two_checkouts_of_one_script_can_be_compared(folder: Path) -> None:
    one, two = (replace(study(0.01), command=(f"/home/{name}/train.py", "--lr", "1")) for name in ("main", "pr"))
    assert compare(folder, one, two) == 0


def test_a_study_of_tune_can_be_compared_too(folder: Path) -> None:
    assert compare(folder, study_full(), study_full(), "--max-regression", "1%") in (0, REGRESSION)


def test_json_goes_where_it_was_asked_for_and_nothing_else_does(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(folder, study(0.010), study(0.0125, seed=1), "--json", "-") == 0
    out, err = capsys.readouterr()
    found = decode(out.encode(), Comparison)
    assert found.change is Change.SLOWER
    assert found.ratio is not None
    assert found.ratio.mid == pytest.approx(1.25, rel=0.03)
    assert "Slower" in err
    assert compare(folder, study(0.010), study(0.010), "--json", "c.json") == 0
    assert json.loads((folder / "c.json").read_text())["limit"] is None


@pytest.mark.parametrize("name", ["missing", "missing.json", "."])
def test_no_study_there(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert cli.main(["compare", name, name]) == 2
    assert f"There is no study at {name}" in capsys.readouterr().err


def test_a_damaged_file_and_an_empty_study_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.json").write_text("{")
    assert cli.main(["compare", "broken.json", "broken.json"]) == 2
    assert "damaged" in capsys.readouterr().err
    assert compare(folder, study_empty(), study_empty()) == 2
    assert "too few steps" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("5", 0.05), ("0.5%", 0.005), (" 10 % ", 0.1), ("0", 0.0)])
def test_a_percentage_is_read(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["-5%", "x", "", "1e3", "5%%", "nan"])
def test_a_percentage_that_is_none(text: str) -> None:
    with pytest.raises(UserError, match="is not a percentage"):
        share(text)


def test_traces_are_compared_by_their_steps_and_their_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps of 1 ms; then 300 us of them are spent on loading, which the device waits for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "before.json").write_text(json.dumps(document()))
    (tmp_path / "after.json").write_text(json.dumps(document(loading="_SingleProcessDataLoaderIter")))
    assert cli.main(["compare", "before.json", "after.json"]) == 0
    said = capsys.readouterr().out
    assert "before.json -> after.json" in said
    assert re.search(r"input +\S+( \w+)? -> +3\d\d us", said), said
    assert "idle, for the loader" in said
    assert "matrix products" not in said, "it takes as long as before"


def test_traces_of_one_step_are_compared_without_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, length in (("before", 300), ("after", 450)):
        made = Written()
        made.launch(0, at=7, length=length)
        made.save(tmp_path / f"{name}.json")
    assert cli.main(["compare", "before.json", "after.json"]) == 0
    said = capsys.readouterr().out
    assert "(too few steps to tell it from chance)" in said
    assert re.search(r"300 us -> +450 us  matrix products", said), said
    assert said.endswith("Undecided: no change can be told from chance here.\n")
