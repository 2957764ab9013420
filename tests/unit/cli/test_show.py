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


@pytest.mark.parametrize("command", ["show", "levers", "apply"])
@pytest.mark.parametrize("name", ["gcn.py", "gcn"])
def test_a_script_is_no_damaged_study(
    command: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "gcn.py").write_text("import torch\n")
    assert cli.main([command, name]) == 2
    makes = "tune" if command == "apply" else "measure"
    assert capsys.readouterr().err == (
        "hotlap: There is no study of gcn.py in .hotlap/ here. `hotlap list` lists those there are; "
        f"`hotlap {makes} gcn.py` makes one.\n"
    )


@pytest.mark.parametrize("name", ["examples/digits.py", "digits", "./examples/digits.py"])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_script_s_newest_study_is_shown(
    name: str, is_there: bool, two: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_there:
        (folder / "examples").mkdir()
        (folder / "examples" / "digits.py").write_text("import torch\n")
    other = replace(sample_measured.study_measured(), command=("gcn.py",))
    save(other, two / "gcn-0" / "study.json")  # the newest of all
    assert cli.main(["show", name, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["purpose"] == "tune"
    assert cli.main(["show", "gcn.py", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] == ["gcn.py"]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (("-m", "package.train", "a.py"), {"package.train": True, "a.py": False, "train": False}),
        (
            ("--", "torchrun", "--nproc-per-node", "2", "train.py", "2"),
            {"train.py": True, "torchrun": True, "2": False},
        ),
        (("train.py", "other.py"), {"train.py": True, "other.py": False, "../train.py": False}),
        ((), {"train.py": False}),
    ],
)
def test_a_study_is_of_what_its_command_starts(
    command: tuple[str, ...], names: dict[str, bool], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(replace(sample_measured.study_measured(), command=command), folder / ".hotlap" / "x" / "study.json")
    found = {name: cli.main(["show", name]) == 0 for name in names}
    assert found == names


@pytest.mark.parametrize(
    ("name", "text", "deleted"),
    [
        (".hotlap/x/study.json", "", True),
        (".hotlap/x/study.json", '{"command": 1}', True),
        ("r.json", "", False),
    ],
)
def test_nobody_is_told_to_delete_a_file_that_is_not_a_study_s_own(
    name: str, text: str, deleted: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    assert cli.main(["show", name]) == 2
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert ("Delete it" in said) == deleted
    assert ("Give a file that hotlap wrote." in said) != deleted


def test_pages_are_written_though_nobody_reads_the_report_to_its_end(
    two: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind `| head`."""

    def left(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("hotlap.cli.console.show", left)
    assert cli.main(["show", "--html", "r.html", "--markdown", "r.md", "--json", "s.json"]) == 141
    assert {path.name for path in folder.glob("[rs].*")} == {"r.html", "r.md", "s.json"}


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
    (two / "train-0" / "lock").unlink()
    (two / "train-0" / "lock").mkdir()  # which cannot be opened, as a file of somebody else
    assert cli.main(["clean"]) == 0
    assert "train-0 stays: it is at work." in capsys.readouterr().out.splitlines()
    (two / "train-0" / "lock").rmdir()
    assert cli.main(["clean", "--keep", "1"]) == 0
    assert [path.name for path in two.iterdir()] == ["train-1"]
