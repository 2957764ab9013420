"""The lab's commands on this machine, each with --quick."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hotlap.cli import main
from hotlap.lab import EXPERIMENTS, devices, file_of
from tests.e2e.running import place

pytestmark = pytest.mark.e2e


@pytest.fixture
def lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """`hotlap lab ...` in a folder of its own; it must leave with `code`. What it printed, on both streams."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, code: int = 0) -> tuple[str, str]:
        left_with = main(["lab", *words])
        out, err = capsys.readouterr()
        assert left_with == code, err
        assert "Traceback" not in err
        return out, err

    return run


Quick = Callable[..., dict[str, Any]]


@pytest.fixture
def quick(tmp_path: Path, lab: Callable[..., tuple[str, str]]) -> Quick:
    """The JSON of a quick run, its page written and its text clean."""

    def run(name: str, *words: str) -> dict[str, Any]:
        has_page = "html" in file_of(name).TAKES
        page = ("--html", "page.html") if has_page else ()
        out, _ = lab(name, "--quick", *page, "--json", "result.json", *words)
        assert f"hotlap lab {name} --quick" in out
        told: dict[str, Any] = json.loads((tmp_path / "result.json").read_text())
        if has_page:  # the study's own report
            assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
            assert "Time per step" in out
            assert told["study"]["baseline"][0]["step_s"]
        numbers = [cell for table in told["tables"] for row in table["rows"] for cell in row if isinstance(cell, dict)]
        assert all(cell["unit"] == "s" for cell in numbers)
        assert told["name"] == name
        assert told["quick"] is True
        assert told["story"]
        assert told["machine"]["num_cores"] >= 1
        assert told["elapsed_s"] > 0
        return told

    return run


def has_gpu(told: dict[str, Any]) -> bool:
    return bool(told["machine"]["gpus"])


def test_without_a_name_the_experiments_are_listed(lab: Callable[..., tuple[str, str]]) -> None:
    text, _ = lab()
    assert [line.split()[0] for line in text.splitlines()[: len(EXPERIMENTS)]] == [*EXPERIMENTS]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["warp"], "There is no experiment 'warp'"),
        (["transfer", "train.py"], "takes no script"),
        (["transfer", "--gpu", "Voodoo 2"], "No device is called"),
        (["lorenz", "--html", "no/such/place.html"], "there is no folder no/such"),
        (["transfer", "--html", "page.html"], "--html does nothing"),
        (["transfer", "--budget", "9s"], "--budget does nothing"),
        (["lorenz", "--budget", "soon"], "--budget"),
        (["checklist"], "Which training?"),
        (["checklist", "missing.py"], "There is no file missing.py"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    words: list[str], says: str, lab: Callable[..., tuple[str, str]]
) -> None:
    out, err = lab(*words, code=2)
    assert says in err
    assert out == ""


def test_transfer(quick: Quick) -> None:
    told = quick("transfer", "--gpu", "RTX 3090")
    (table,) = told["tables"]
    founding = dict(zip(table["columns"], next(row for row in table["rows"] if row[0] == "200 x 200"), strict=True))
    assert founding["NumPy"]["value"] > 0
    assert founding["GPU"]["predicted"] is not has_gpu(told)


def test_launch_floor(quick: Quick) -> None:
    told = quick("launch-floor")
    (table,) = told["tables"]
    assert all(0 < cell["value"] < 1 for row in table["rows"] for cell in row[1:])
    assert {"100 x 3", "100 x 100"} <= {row[0] for row in table["rows"]}
    assert table["rows"][0][table["columns"].index("GPU")]["predicted"] is not has_gpu(told)


@pytest.mark.slow
def test_lorenz(quick: Quick) -> None:
    told = quick("lorenz")
    assert ("~" in told["story"][1]) is not has_gpu(told)


@pytest.mark.slow
def test_pinning(quick: Quick) -> None:
    told = quick("pinning", "--budget", "1s")
    assert "not compared often enough" in told["story"][0]
    assert any("not MNIST" in note for note in told["notes"])


def test_devices(quick: Quick, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "QUICK_HIDDEN", (32,))
    told = quick("devices")
    (table,) = told["tables"]
    (row,) = table["rows"]
    assert row[1]["value"] > 0
    assert row[3]["predicted"] is not has_gpu(told)


@pytest.mark.slow
def test_transformer(quick: Quick) -> None:
    told = quick("transformer", "--budget", "1s")
    there = told["study"]["predictions"]
    assert [(one["device"], one["count"]) for one in there] == [("RTX 4090", count) for count in (1, 2, 4)]
    assert "attention-over-batch" in [one["code"] for one in told["study"]["findings"]]


def test_checklist(quick: Quick, tmp_path: Path) -> None:
    script = place("plain.py", tmp_path)
    before = script.read_bytes()
    told = quick("checklist", "--budget", "1s", "plain.py", "100000")  # 400 steps would be run twice
    (table,) = told["tables"]
    assert len(table["rows"]) == 17
    assert all(row[2] and row[3] for row in table["rows"])
    assert script.read_bytes() == before


def test_a_script_that_fails_is_told_as_its_own_failure(tmp_path: Path, lab: Callable[..., tuple[str, str]]) -> None:
    (tmp_path / "train.py").write_text("import torch\nraise SystemExit('no data')\n")
    _, err = lab("checklist", "--quick", "train.py", code=3)
    assert "no data" in err
