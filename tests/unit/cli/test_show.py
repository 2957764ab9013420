"""`hotlap show`, `list` and `clean`: studies are found again, and deleted where that does no harm."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli import storage
from hotlap.record import save
from tests import sample_measured, samples


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HOTLAP_STUDIES", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def two(folder: Path) -> Path:
    """A measurement, and after it a tuned study."""
    for number, study in enumerate((sample_measured.study_measured(), samples.study_full())):
        path = folder / ".hotlap" / f"train-{number}" / "study.json"
        save(replace(study, cwd=str(folder)), path)
        (path.parent / "report.html").write_text("")
        os.utime(path, (1e9 + number, 1e9 + number))
    return folder / ".hotlap"


def test_the_newest_study_is_shown_and_written(two: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "--html", "r.html", "--markdown", "r.md"]) == 0
    assert capsys.readouterr().out.split()[-6:] == ["hotlap", "apply", "--revert", "takes", "it", "back"]
    assert "3.11x as fast" in (folder / "r.html").read_text()
    assert (folder / "r.md").read_text().startswith("## 3.11x as fast")


@pytest.mark.parametrize("name", [".hotlap/train-0", "train-0", ".hotlap/train-0/study.json"])
def test_a_study_is_shown_by_its_name_its_folder_or_its_file_and_as_json_alone(
    name: str, two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", name, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["purpose"] == "measure"


def test_names_of_any_length_are_listed_in_columns(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (two / "train-0").rename(two / "a-longer-name-0")
    assert cli.main(["list"]) == 0
    tuned, measured = capsys.readouterr().out.splitlines()
    assert tuned.index("tune ") == measured.index("measure ")


def test_steps_are_written_for_perfetto_as_they_went(two: Path, folder: Path) -> None:
    assert cli.main(["show", ".hotlap/train-1", "--perfetto", "t.json"]) == 0
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    named = {(one["pid"], one.get("tid")): one["args"]["name"] for one in events if one["ph"] == "M"}
    assert (named[0, None], named[1, None]) == ("baseline", "optimized")
    run = samples.study_full().baseline[0]
    assert run.excerpt is not None
    for lane in ("loader", "host"):
        told = [
            (one["name"], one["ts"] / 1e6, one["dur"] / 1e6)
            for one in events
            if one["ph"] == "X" and one["pid"] == 0 and named[0, one["tid"]] == lane
        ]
        spans = [one for one in run.excerpt.spans if one.lane == lane]
        assert [name for name, *_ in told] == [one.phase.value for one in spans]
        assert [begin_s for _, begin_s, _ in told] == pytest.approx([one.begin_s for one in spans])
        assert [lasts_s for *_, lasts_s in told] == pytest.approx([one.end_s - one.begin_s for one in spans])


def test_a_study_that_holds_no_spans_says_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = sample_measured.study_measured()
    save(replace(study, baseline=(replace(study.baseline[0], excerpt=None),)), folder / "s.json")
    assert cli.main(["show", "s.json", "--perfetto", "t.json"]) == 2
    said = capsys.readouterr()
    assert "Measure the script with `hotlap measure`" in said.err
    assert not said.out
    assert not (folder / "t.json").exists()


@pytest.mark.parametrize("command", ["show", "clean", "list"])
def test_nothing_was_made_here(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command]) == (2 if command == "show" else 0)
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "There is no study in .hotlap/ here" in said.err or "0 studies were deleted." in said.out


def test_studies_are_listed_newest_first_with_what_they_came_to(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    tuned, measured = capsys.readouterr().out.splitlines()
    assert tuned.split() == ["train-1", "tune", "3.11x", "as", "fast", "examples/digits.py", "--epochs", "3"]
    assert measured.startswith("train-0  measure  10.9 ms a step")


def test_a_damaged_study_is_told_and_says_why(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (two / "train-1" / "study.json").write_text("{")
    assert cli.main(["list"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("train-0  measure") and len(said.out.splitlines()) == 1
    assert said.err == "train-1 cannot be read; `hotlap show train-1` says why.\n"
    assert cli.main(["show", "train-1"]) == 2
    why = capsys.readouterr().err
    (two / "train-0" / "study.json").write_text("{")
    assert cli.main(["show"]) == 2
    newest = capsys.readouterr().err
    assert "There is no study" not in why + newest
    assert "study.json" in newest


@pytest.mark.parametrize("option", ["--html", "--markdown", "--perfetto"])
def test_only_json_goes_to_standard_output(
    two: Path, folder: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["show", option, "-"]) == 2
    assert capsys.readouterr().err.startswith(f"hotlap: {option} wants the name of a file")
    assert not (folder / "-").exists()


def test_what_is_deleted_is_said_first_and_what_is_needed_stays(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["clean", "--check"]) == 0
    assert "2 studies would be deleted." in capsys.readouterr().out
    (two / "train-1" / "applied.json").write_text("{}")
    at_work = storage._locked(two / "train-0")
    assert at_work is not None
    assert cli.main(["clean"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "train-1 stays: its patch is applied.",
        "train-0 stays: it is at work.",
        "0 studies were deleted.",
    ]
    at_work.close()
    assert cli.main(["clean", "--keep", "1"]) == 0
    assert [path.name for path in two.iterdir()] == ["train-1"]
