"""`hotlap explain` and `hotlap levers`: every finding and lever has words, and a study says what came of each."""

from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli, levers, rules
from hotlap.record import Trial, save
from hotlap.report.terminal import WIDTH
from tests import samples


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HOTLAP_STUDIES", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [*rules.ALL, *(kind.name for kind in (*levers.ALL, *levers.RECIPES))])
def test_each_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", name]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{name}: ")
    assert "Example: " in said or "When it hurts: " in said


def test_what_nobody_knows_is_refused_with_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "slow"]) == 2
    assert "`hotlap explain all` lists them." in capsys.readouterr().err
    assert cli.main(["explain", "all"]) == 0
    assert {"input-bound", "cached-dataset"} <= set(capsys.readouterr().out.split())


def test_levers_say_what_came_of_them_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["levers"]) == 0
    assert "here:" not in capsys.readouterr().out
    full = samples.study_full()
    refused = Trial(levers=({"name": "tf32"},), scope="none", why="Not tried. The model is on the CPU.")
    save(replace(full, trials=(*full.trials, refused)), folder / ".hotlap" / "x" / "study.json")
    assert cli.main(["levers"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "here: does not apply. The model is on the CPU." in said
    assert "here: not taken. slower, so its effect on training was not examined" in said


def test_lines_of_levers_are_as_wide_as_those_of_a_report_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["levers"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= WIDTH
    first = next(number for number, line in enumerate(lines) if line.startswith("batched-fetch "))
    assert lines[first + 1] == f"{'':34}`hotlap.data.batched`."
