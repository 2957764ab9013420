"""hotlap apply: all files or none, back again byte by byte, and nothing outside of the script's own folders."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import cli, levers
from hotlap.cli import apply
from hotlap.errors import RecordError, UserError
from hotlap.record import (
    FileChange,
    Interval,
    LeverSpec,
    Purpose,
    Result,
    Run,
    State,
    Status,
    Study,
    Verdict,
    load,
    save,
)
from hotlap.source import InsertAfterImports, Patched, patch, top_of
from tests.samples import KEPT

TEXT = "import torch\r\n\r\nprint('é')"


def hotlap(*words: str) -> int:
    """The command as a user types it."""
    return apply.run(cli.parsed(["apply", *words]))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def patched(paths: Sequence[Path], *, root: Path) -> Patched:
    edits = [InsertAfterImports(site=top_of(str(path), sha256(path)), code="import gc") for path in paths]
    return patch(edits, root=root)


def study_of(root: Path, *, diff: str | None, changes: tuple[FileChange, ...], script: Path | None = None) -> Study:
    run = Run(status=Status.COMPLETE, sources={str(script or root / "train.py"): ""})
    return Study(
        command=("train.py",),
        cwd=str(root),
        created="2026-01-01T00:00:00Z",
        key="k",
        state=State.COMPLETE,
        baseline=(run,),
        patch=diff,
        changes=changes,
    )


def written(root: Path, paths: Sequence[Path], *, name: str = "train-1", **fields: object) -> Path:
    """A study of `paths` in its usual place."""
    made = patched(paths, root=root)
    study = replace(study_of(root, diff=made.diff, changes=made.changes), **fields)  # type: ignore[arg-type]
    folder = root / ".hotlap" / name
    save(study, folder / "study.json")
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    (root / "lib").mkdir(parents=True)
    (root / "train.py").write_bytes(TEXT.encode())
    (root / "lib" / "net.py").write_bytes(b"\xef\xbb\xbf# the net\n\nx = 1\n")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def files(project: Path) -> list[Path]:
    return [project / "train.py", project / "lib" / "net.py"]


def test_applies_and_takes_back(project: Path, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    before = [path.read_bytes() for path in files]
    os.chmod(files[0], 0o751)
    folder = written(project, files)
    assert hotlap() == 0
    assert capsys.readouterr().out == (
        "Applied the patch to train.py, lib/net.py. `hotlap apply --revert` takes it back.\n"
        "The patched script is plain PyTorch: it runs where hotlap is not installed.\n"
    )
    assert files[0].read_bytes() == before[0].replace(b"torch\r\n", b"torch\r\n\r\nimport gc\r\n")
    assert files[1].read_bytes() == before[1].replace(b"\n\nx", b"\n\nimport gc\n\nx")
    assert os.stat(files[0]).st_mode & 0o777 == 0o751
    assert hotlap("--revert") == 0
    assert capsys.readouterr().out == "Took the patch back: train.py, lib/net.py are as before.\n"
    assert [path.read_bytes() for path in files] == before
    assert os.stat(files[0]).st_mode & 0o777 == 0o751
    assert sorted(path.name for path in folder.iterdir()) == ["study.json"]
    assert sorted(path.name for path in project.rglob(".*.hotlap")) == []


def test_applying_twice_says_so(project: Path, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    written(project, files)
    hotlap()
    after = [path.read_bytes() for path in files]
    assert hotlap() == 0
    assert "is applied already" in capsys.readouterr().out
    assert [path.read_bytes() for path in files] == after
    assert hotlap("--revert") == 0


def test_a_patch_that_git_applied_is_taken_back_by_patch(
    project: Path, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(project, files)
    hotlap()
    (folder / "applied.json").unlink()
    capsys.readouterr()
    assert hotlap() == 0
    assert "is applied already. `hotlap apply --diff | patch -R -p1` takes it back" in capsys.readouterr().out
    with pytest.raises(UserError, match="not applied by `hotlap apply`"):
        hotlap("--revert")


def test_reverting_twice_says_so(project: Path, files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(written(project, files))
    hotlap()
    hotlap("--revert")
    assert hotlap(folder, "--revert") == hotlap("--revert") == 0
    assert capsys.readouterr().out.count("nothing to take back") == 2


def test_one_changed_file_stops_all(project: Path, files: list[Path]) -> None:
    written(project, files)
    before = files[0].read_bytes()
    files[1].write_text("x = 2\n")
    with pytest.raises(UserError, match=r"net\.py changed since it was measured.* Run `hotlap tune` again\."):
        hotlap()
    assert files[0].read_bytes() == before


def test_a_missing_file_stops_all(project: Path, files: list[Path]) -> None:
    written(project, files)
    before = files[0].read_bytes()
    files[1].unlink()
    with pytest.raises(UserError, match=r"net\.py is not there any more"):
        hotlap()
    assert files[0].read_bytes() == before


def test_a_file_that_changed_after_the_apply_is_not_reverted(project: Path, files: list[Path]) -> None:
    written(project, files)
    hotlap()
    files[1].write_text("x = 2\n")
    after = files[0].read_bytes()
    with pytest.raises(UserError, match=r"net\.py changed since the patch was applied"):
        hotlap("--revert")
    assert files[0].read_bytes() == after


@pytest.mark.parametrize("back", [True, False])
def test_a_failure_half_way_says_what_to_do(
    project: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    written(project, files)
    before = [path.read_bytes() for path in files]
    real = os.replace

    def failing(source: str | Path, target: str | Path) -> None:
        if Path(target) == files[1]:
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patching:
        patching.setattr(os, "replace", failing)
        with pytest.raises(UserError, match=r"net\.py cannot be written \(No space left on device\)\. Fix that and do"):
            hotlap()
    assert list(project.rglob(".*.hotlap")) == []
    hotlap(*["--revert"] * back)
    assert [path.read_bytes() == old for path, old in zip(files, before, strict=True)] == [back, back]


def test_an_apply_that_was_cut_off_can_be_finished_or_taken_back(project: Path, files: list[Path]) -> None:
    written(project, files)
    before = [path.read_bytes() for path in files]
    hotlap()
    after = [path.read_bytes() for path in files]
    files[1].write_bytes(before[1])
    hotlap()
    assert [path.read_bytes() for path in files] == after
    files[1].write_bytes(before[1])
    hotlap("--revert")
    assert [path.read_bytes() for path in files] == before


def test_what_git_applied_is_not_ours_to_revert(project: Path, files: list[Path]) -> None:
    made = patched(files, root=project)
    folder = written(project, files)
    files[0].write_bytes(made.texts[str(files[0])].encode())
    with pytest.raises(UserError, match="was not applied by `hotlap apply`"):
        hotlap(str(folder), "--revert")


def test_damaged_originals_are_not_written(project: Path, files: list[Path]) -> None:
    folder = written(project, files)
    hotlap()
    after = [path.read_bytes() for path in files]
    note = folder / "applied.json"
    note.write_text(note.read_text().replace("the net", "evil"))
    with pytest.raises(RecordError, match="is damaged"):
        hotlap("--revert")
    assert [path.read_bytes() for path in files] == after


def test_takes_the_newest_study_that_has_a_patch(project: Path, files: list[Path]) -> None:
    folders = [written(project, files[:1], name="a"), written(project, files[1:], name="b")]
    folders.append(written(project, files, name="c", patch=None, changes=()))
    (project / ".hotlap" / "d").mkdir()
    (project / ".hotlap" / "d" / "study.json").write_text("{")
    for age, folder in enumerate([*folders, project / ".hotlap" / "d"]):
        os.utime(folder / "study.json", (1_000_000 + age, 1_000_000 + age))
    before = files[0].read_bytes()
    hotlap()
    assert files[0].read_bytes() == before
    assert b"import gc" in files[1].read_bytes()


def test_without_a_study_says_what_to_run(project: Path) -> None:
    with pytest.raises(UserError, match=r"There is no study in \.hotlap/ here\. Run `hotlap tune SCRIPT` first\."):
        hotlap()
    with pytest.raises(UserError, match=r"There is no study at nowhere"):
        hotlap("nowhere")


def test_a_script_means_its_newest_study_that_has_a_patch_or_whose_patch_is_applied(
    project: Path, files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three of train.py the oldest has a patch, the next another, and the newest none; one of other.py is newer."""
    folders = [written(project, files[:1], name="a"), written(project, files[1:], name="b")]
    folders.append(written(project, files, name="c", patch=None, changes=()))
    folders.append(written(project, files, name="d", command=("other.py",)))
    for age, folder in enumerate(folders):
        os.utime(folder / "study.json", (1_000_000 + age, 1_000_000 + age))
    before = [path.read_bytes() for path in files]
    for name in ("train.py", "train"):
        hotlap(name)
        assert files[0].read_bytes() == before[0]
        assert b"import gc" in files[1].read_bytes()
        hotlap("--revert", name)
        assert [path.read_bytes() for path in files] == before
    hotlap("a")
    hotlap("--revert", "train.py")
    assert [path.read_bytes() for path in files] == before
    capsys.readouterr()
    hotlap("--revert", "train.py")
    assert capsys.readouterr().out == "The patch is not applied, so there is nothing to take back.\n"


def test_a_study_that_only_measured_names_the_command_that_makes_a_patch(project: Path, files: list[Path]) -> None:
    written(project, files, patch=None, changes=(), purpose=Purpose.MEASURE)
    with pytest.raises(UserError, match=r"only measured, so it has no patch: `hotlap tune train\.py` tries"):
        hotlap()


def test_a_study_that_proved_nothing_names_the_command_that_asks_again(project: Path, files: list[Path]) -> None:
    none = Interval(low=1, mid=1, high=1)
    result = Result(levers=(), speedup=none, verdict=Verdict.UNDECIDED, why="No time for the gate.", needs_s=540.0)
    written(project, files, patch=None, changes=(), result=result)
    with pytest.raises(UserError, match=r"No time for the gate\. `hotlap tune --budget 9m .*train\.py` asks again"):
        hotlap()


def test_a_study_without_a_patch_says_why(project: Path, files: list[Path]) -> None:
    folder = written(project, files, patch=None, changes=())
    for words in ((), (str(folder),), (str(folder / "study.json"),)):
        with pytest.raises(UserError, match=r"has no patch\. No gain: No lever was worth a trial here\."):
            hotlap(*words)
    sure = Interval(low=2, mid=2, high=2)
    taken = Result(levers=({"name": "threads"},), speedup=sure, verdict=Verdict.UNHARMED, why="Equal.")
    written(project, files, patch=None, changes=(), result=taken)
    with pytest.raises(UserError, match=r"No patch: the accepted levers could not be written into the source\."):
        hotlap()
    written(project, files, patch=None, changes=(), state=State.INTERRUPTED)
    with pytest.raises(UserError, match="is not complete"):
        hotlap()


def test_a_damaged_study_is_refused(project: Path, files: list[Path]) -> None:
    folder = written(project, files)
    (folder / "study.json").write_text("{")
    with pytest.raises(RecordError, match="is damaged"):
        hotlap()


@pytest.mark.parametrize(
    "change",
    [
        lambda study: replace(study, patch=study.patch.replace("+import gc", "+import os")),
        lambda study: replace(study, patch=study.patch.replace("b/train.py", "b/other.py")),
        lambda study: replace(study, changes=study.changes[:1]),
        lambda study: replace(study, changes=(*study.changes, study.changes[0])),
        lambda study: replace(study, patch="nonsense"),
        lambda study: replace(study, changes=(replace(study.changes[0], after="import os\n"), *study.changes[1:])),
    ],
)
def test_a_patch_that_is_not_what_was_measured_is_refused(project: Path, files: list[Path], change: object) -> None:
    made = patched(files, root=project)
    before = [path.read_bytes() for path in files]
    assert callable(change)
    save(change(study_of(project, diff=made.diff, changes=made.changes)), project / ".hotlap" / "x" / "study.json")
    with pytest.raises(UserError, match="damaged"):
        hotlap()
    assert [path.read_bytes() for path in files] == before


def test_a_patch_that_git_applied_to_one_of_its_files_is_not_finished(project: Path, files: list[Path]) -> None:
    made = patched(files, root=project)
    written(project, files)
    files[0].write_bytes(made.texts[str(files[0])].encode())
    before = [path.read_bytes() for path in files]
    with pytest.raises(UserError, match="was not applied by `hotlap apply`"):
        hotlap()
    assert [path.read_bytes() for path in files] == before


def test_a_file_outside_of_the_script_s_folders_is_left_alone(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "other.py"
    outside.write_text("x = 1\n")
    before = outside.read_bytes()
    link, linked = project / "link.py", project / "linked"
    link.symlink_to(outside)
    linked.symlink_to(tmp_path)
    made = patched([outside], root=project)
    for name in (str(outside), str(link), str(linked / "other.py"), f"{project}/../other.py", "train.py", "\0"):
        changes = (replace(made.changes[0], path=name),)
        save(study_of(project, diff=made.diff, changes=changes), project / ".hotlap" / "x" / "study.json")
        with pytest.raises(UserError, match=r"The study would change .*, which is not below .* Nothing was changed\."):
            hotlap()
    assert outside.read_bytes() == before


def test_the_folder_of_the_script_may_be_elsewhere(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "train.py"
    script.parent.mkdir()
    script.write_text("x = 1\n")
    made = patched([script], root=project)
    study = study_of(project, diff=made.diff, changes=made.changes, script=script)
    save(study, project / ".hotlap" / "x" / "study.json")
    hotlap()
    assert script.read_text() == "import gc\n\nx = 1\n"


def test_a_study_that_claims_another_folder_is_refused(
    project: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = patched(files, root=project)
    elsewhere = tmp_path / "downloads"
    elsewhere.mkdir()
    save(study_of(project, diff=made.diff, changes=made.changes), elsewhere / "study.json")
    monkeypatch.chdir(elsewhere)
    with pytest.raises(UserError, match=r"This study was made in .*/project\. Go there to apply it"):
        hotlap("study.json")
    monkeypatch.chdir(project)
    hotlap(str(elsewhere / "study.json"))
    assert b"import gc" in files[0].read_bytes()


def test_a_study_can_be_named_from_anywhere(
    project: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(project, files)
    monkeypatch.chdir(tmp_path)
    before = files[0].read_bytes()
    hotlap(str(folder))
    hotlap(str(folder), "--revert")
    assert files[0].read_bytes() == before


def test_what_is_not_python_is_left_alone(project: Path) -> None:
    path = project / "settings"
    path.write_text("export A=1 {\n")
    before, new = path.read_bytes(), path.read_bytes().replace(b"1", b"2")
    change = FileChange(
        path=str(path), before_sha256=sha256(path), after_sha256=hashlib.sha256(new).hexdigest(), after=new.decode()
    )
    diff = "--- a/settings\n+++ b/settings\n@@ -1 +1 @@\n-export A=1 {\n+export A=2 {\n"
    save(study_of(project, diff=diff, changes=(change,)), project / ".hotlap" / "x" / "study.json")
    with pytest.raises(UserError, match="is not a Python file"):
        hotlap()
    assert path.read_bytes() == before


def test_a_link_within_the_project_stays_a_link(project: Path, files: list[Path]) -> None:
    link = project / "run.py"
    link.symlink_to(files[0])
    written(project, [link])
    hotlap()
    assert link.is_symlink()
    assert b"import gc" in files[0].read_bytes()
    hotlap("--revert")
    assert files[0].read_bytes() == TEXT.encode()


def test_notes_when_and_what_was_there(project: Path, files: list[Path]) -> None:
    before = sha256(files[0])
    folder = written(project, files)
    hotlap()
    noted = json.loads((folder / "applied.json").read_text())
    assert hashlib.sha256(noted["originals"][before].encode("latin-1")).hexdigest() == before
    assert noted["applied"].endswith("+00:00")


# A part of the patch


@pytest.fixture
def several(project: Path) -> Path:
    """A study that came to two levers, each of which writes one statement, and to one that writes none."""
    return tuned(project, {"name": "threads", "count": 1}, {"name": "tf32"}, {"name": "malloc", "huge_pages": False})


def tuned(project: Path, *levers_: LeverSpec) -> Path:
    """The script of a study that came to these levers."""
    script = project / "train.py"
    run = Run(status=Status.COMPLETE, device="cpu", num_threads=2, sources={str(script): sha256(script)})
    made = patch(levers.edits_of(levers_, run), root=project)
    study = replace(
        study_of(project, diff=made.diff, changes=made.changes),
        baseline=(run,),
        result=Result(
            levers=levers_,
            speedup=Interval(low=1.1, mid=1.2, high=1.3),
            verdict=Verdict.UNHARMED,
            why="Bit-equal.",
            environment=levers.environment_of(levers_, {}),
        ),
    )
    save(study, project / ".hotlap" / "x" / "study.json")
    return script


@pytest.mark.parametrize("words", [("--only", "threads"), ("--without", "tf32,malloc")])
def test_a_part_is_applied_and_taken_back(
    several: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = several.read_bytes()
    assert hotlap(*words, "--diff") == 0
    assert "+torch.set_num_threads(1)" in capsys.readouterr().out
    assert several.read_bytes() == before
    assert hotlap(*words) == 0
    assert "gain of this part alone was not confirmed" in capsys.readouterr().out
    assert b"set_num_threads(1)" in several.read_bytes()
    assert b"matmul_precision" not in several.read_bytes()
    assert hotlap("--revert") == 0
    assert several.read_bytes() == before


def test_a_part_and_the_whole_are_not_applied_over_each_other(several: Path) -> None:
    before = several.read_bytes()
    hotlap("--only", "threads")
    part = several.read_bytes()
    with pytest.raises(UserError, match=r"Another part .* is applied\. Take it back first"):
        hotlap()
    with pytest.raises(UserError, match=r"is applied\. Take it back first"):
        hotlap("--only", "tf32")
    assert several.read_bytes() == part
    hotlap("--revert")
    hotlap()
    with pytest.raises(UserError, match=r"is applied\. Take it back first"):
        hotlap("--without", "threads")
    hotlap("--revert")
    assert several.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--only", "warp-drive"), "did not come to a lever 'warp-drive'. Its levers: threads, tf32, malloc"),
        (("--without", "threads,tf32,malloc"), "leaves no lever"),
        (("--only", ","), "--only names nothing"),
        (("--only", "threads", "--revert"), "do not go with it"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(several: Path, words: tuple[str, ...], says: str) -> None:
    before = several.read_bytes()
    with pytest.raises(UserError, match=says):
        hotlap(*words)
    assert several.read_bytes() == before


def test_all_levers_named_are_the_whole_patch(several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hotlap("--only", "malloc, threads, tf32")
    assert "not confirmed" not in capsys.readouterr().out
    assert b"set_num_threads(1)" in several.read_bytes()


def test_what_no_line_can_set_is_told_with_the_patch_and_with_the_part_that_has_it(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"GLIBC_TUNABLES={KEPT} python train.py"
    before = several.read_bytes()
    for words, told in (((), True), (("--only", "threads,malloc"), True), (("--without", "malloc"), False)):
        hotlap(*words)
        assert (command in capsys.readouterr().out) == told
        assert b"GLIBC_TUNABLES" not in several.read_bytes()
        hotlap("--revert")
        assert several.read_bytes() == before
        capsys.readouterr()


def test_a_study_without_a_patch_tells_what_to_start_the_script_with(several: Path) -> None:
    path = several.parent / ".hotlap" / "x" / "study.json"
    save(replace(load(path, Study), patch=None, changes=()), path)
    with pytest.raises(
        UserError, match=rf"has no patch\. To start it: GLIBC_TUNABLES={re.escape(KEPT)} python train\.py"
    ):
        hotlap(str(path))


def test_the_part_that_is_plain_pytorch_is_applied_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tuned(project, {"name": "native-step", "parts": "all"}, {"name": "threads", "count": 1})
    before = script.read_bytes()
    hotlap()
    assert "needs hotlap when it runs: it calls native_steps." in capsys.readouterr().out
    assert b"from hotlap.small import native_steps\r\n" in script.read_bytes()
    hotlap("--revert")
    hotlap("--without", "hotlap")
    assert "is plain PyTorch: it runs where hotlap is not installed" in capsys.readouterr().out
    assert script.read_bytes() == before.replace(b"torch\r\n", b"torch\r\n\r\ntorch.set_num_threads(1)\r\n", 1)


def test_of_a_patch_that_needs_hotlap_everywhere_no_plain_part_is_left(project: Path) -> None:
    script = tuned(project, {"name": "native-step", "parts": "all"})
    before = script.read_bytes()
    with pytest.raises(UserError, match=r"leaves no lever to apply\. The study's levers: native-step"):
        hotlap("--without", "hotlap")
    assert script.read_bytes() == before
