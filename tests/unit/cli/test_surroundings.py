"""Hostile surroundings: one sentence and exit code 2 before anything runs, or a result; never a traceback of ours."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.cli import storage, target, workbench
from hotlap.errors import UserError
from hotlap.record import Purpose, State, Study, load, save
from hotlap.report import story
from tests import samples

COMMANDS = (
    ["measure", "{script}"],
    ["measure", "--full", "{script}"],
    ["tune", "{script}"],
    ["predict", "{script}"],
    ["machine"],
    ["lab"],
    ["apply"],
    ["apply", "--revert"],
)
KEEP_STUDIES = COMMANDS[:3]

NOBODY = 65534


def words_of(command: list[str], script: Path) -> list[str]:
    return [word.format(script=script) for word in command]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence that the user is shown."""
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hotlap: ")
    assert err.count("\n") == 1
    return err


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that others may look into, with a script that leaves a mark when it runs."""
    folder = Path(tempfile.mkdtemp(prefix="surroundings-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "train.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("HOTLAP_STUDIES", raising=False)
    yield folder
    assert not (folder / "ran").exists(), "the script was started"
    shutil.rmtree(folder)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, which may write and read whatever it likes."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


# The working folder


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_was_deleted(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert "was deleted or moved" in refused(words_of(command, tmp_path / "train.py"), capsys)


@pytest.mark.parametrize("command", KEEP_STUDIES, ids=" ".join)
def test_a_folder_that_cannot_be_written(
    command: list[str], project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(command, Path("train.py"))
    with monkeypatch.context() as patch:
        patch.setenv("HOTLAP_STUDIES", "/proc/nowhere")
        sentence = refused(words, capsys)
        assert "cannot be kept in /proc/nowhere/surroundings-" in sentence
        assert "HOTLAP_STUDIES" in sentence
    project.chmod(0o555)
    with as_nobody():  # (all that is imported has been by now: nobody may not read every library)
        sentence = refused(words, capsys)
    assert f"cannot be kept in {project}/.hotlap: Permission denied" in sentence
    assert "HOTLAP_STUDIES" in sentence


MOUNTED = """
import io, os, subprocess, sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from hotlap import cli

def refused(words):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.main(words)
    assert (code, out.getvalue(), err.getvalue().count("\\n")) == (2, "", 1), (words, err.getvalue())
    return err.getvalue()

for options, says in (("ro", "Read-only file system"), ("size=64k", "No space left on device")):
    folder = Path(sys.argv[1]) / options
    folder.mkdir()
    (folder / "train.py").write_text("raise SystemExit('it was started')")
    subprocess.run(["mount", "-t", "tmpfs", "none", str(folder)] + ["-o", options] * (options != "ro"), check=True)
    (folder / "train.py").write_text("raise SystemExit('it was started')")
    if options == "ro":
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    os.chdir(folder)
    for words in (["measure", "train.py"], ["measure", "--full", "train.py"], ["tune", "train.py"]):
        assert f"cannot be kept in {folder}/.hotlap: {says}" in refused(words)
    for words in (["predict", "--json", "a", "x.py"], ["machine", "--json", "a"], ["lab", "pinning", "--html", "a"]):
        if options == "ro":
            assert "a place that is read-only for you" in refused(words)
"""


def test_file_systems_that_are_read_only_or_full(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs rights that this user has not")
    command = [unshare, "--mount", sys.executable, "-c", MOUNTED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_studies_in_another_folder_are_found_from_where_they_were_made_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_STUDIES", str(tmp_path / "studies"))
    homes = [tmp_path / "a" / "same name", tmp_path / "b" / "same name"]
    for home in homes:
        home.mkdir(parents=True)
    kept = storage.StudyFolder(homes[0], "train.py", storage.now())
    kept.check()
    kept.save(samples.study_full())
    kept.close()
    assert [path for path, _ in storage.known(homes[0])] == [kept.folder / "study.json"]
    assert kept.folder.is_relative_to(tmp_path / "studies")
    assert list(storage.known(homes[1])) == []
    assert not any(home.iterdir() for home in homes if any(home.iterdir()))
    monkeypatch.chdir(homes[1])
    assert f"There is no study in {tmp_path / 'studies'}/same-name-" in refused(["apply"], capsys)


def workbench_of(*words: str) -> workbench.Workbench:
    args = cli.parsed([*words, "--", "true"])
    return workbench.Workbench(args, target.parse(args.tail), purpose=Purpose.MEASURE, budget_s=60.0)


def test_a_disk_that_fills_later_costs_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    study = samples.study_full()
    bench = workbench_of("measure", "--html", str(tmp_path / "page"))
    monkeypatch.setattr(storage, "save", full)
    bench.changed(study, "findings")
    with pytest.raises(UserError, match=r"cannot be saved in .*true-.*: No space left on device"):
        bench.finish()
    bench.storage.close()
    assert "input-bound" in capsys.readouterr().out
    assert "input-bound" in (tmp_path / "page").read_text()


def test_what_trials_could_not_share_and_could_not_be_kept_from_is_said_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Launcher:
        why_afresh = "the script sets OMP_NUM_THREADS in its environment"
        not_enclosed = "no user namespaces"

        def __init__(self, **settings: object) -> None:
            assert settings["templates"]

        def __enter__(self) -> "Launcher":
            return self

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workbench, "Launcher", Launcher)
    bench = workbench_of("measure", "-q")
    with bench.launching(timeout_s=1.0):
        assert not bench.study.warnings
    kept_from, shared = bench.study.warnings
    assert "no user namespaces" in kept_from and "written for real" in kept_from
    assert "imports anew" in shared and Launcher.why_afresh in shared


def test_studies_that_begin_in_the_same_second_do_not_share_a_folder(tmp_path: Path) -> None:
    now, study = storage.now(), samples.study_full()
    kept = [storage.StudyFolder(tmp_path, "train.py", now) for _ in range(3)]
    (kept[0].folder / "jobs").mkdir(parents=True)
    for one in (*kept, *kept):
        one.save(study)
    assert [one.folder.name.removeprefix(kept[0].folder.name) for one in kept] == ["", "-2", "-3"]
    assert len(storage.studies(tmp_path)) == 3
    assert all(storage.is_at_work(one.folder) for one in kept)
    for one in kept:
        one.close()


@pytest.mark.parametrize("title", ["train.py", "package.train", "run.sh", "v1.5.py"])
def test_a_study_is_called_as_its_training(title: str, tmp_path: Path) -> None:
    kept = storage.StudyFolder(tmp_path, title, storage.now())
    assert kept.folder.name.startswith(f"{title.removesuffix('.py')}-2")


def test_a_folder_that_the_training_deleted_is_not_made_again(tmp_path: Path) -> None:
    home = tmp_path / "job"
    home.mkdir()
    kept = storage.StudyFolder(home, "train.py", storage.now())
    home.rmdir()
    with pytest.raises(UserError, match="No such file or directory"):
        kept.save(samples.study_full())
    assert not home.exists()


def test_a_folder_of_studies_that_is_deleted_meanwhile_stays_out_of_git_when_it_comes_back(tmp_path: Path) -> None:
    kept = storage.StudyFolder(tmp_path, "train.py", storage.now())
    kept.save(samples.study_full())
    shutil.rmtree(tmp_path / ".hotlap")
    kept.save(samples.study_full())
    kept.close()
    assert len(storage.studies(tmp_path)) == 1
    assert (tmp_path / ".hotlap" / ".gitignore").read_text() == "*\n"


def test_half_a_record_on_a_full_disk_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(samples.study_full(), tmp_path / "study.json")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        save(replace(samples.study_full(), state=State.RUNNING), tmp_path / "study.json")
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]
    assert load(tmp_path / "study.json", Study) == samples.study_full()


# Scripts


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no/such.py", "There is no file"),
        ("train.py/x.py", "There is no file"),
        ("x" * 300, "File name too long"),
        ("pipe", "Save the script under a name"),
        ("/dev/null", "Save the script under a name"),
        ("closed.py", "closed.py cannot be read: Permission denied"),
        ("closed/train.py", "closed/train.py cannot be read: Permission denied"),
        (".", "is a folder"),
    ],
)
def test_scripts_that_cannot_be_read(name: str, says: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(project / "pipe")
    (project / "closed").mkdir()
    (project / "closed" / "train.py").write_text("")
    (project / "closed.py").write_text("")
    (project / "closed.py").chmod(0)
    (project / "closed").chmod(0)
    refused(["measure", "nothing.py"], capsys)  # imports what nobody may not read
    with as_nobody():
        assert says in refused(["measure", name], capsys)
    (project / "closed").chmod(0o700)


@pytest.mark.parametrize("name", ["no-such-program", "./train.py", "/no/such/program"])
def test_a_program_that_cannot_be_started(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("measure", "tune", "predict"):
        assert f"There is no program {name} here" in refused([command, "--", name], capsys)


# Streams


@contextmanager
def streams(make: Callable[[str], TextIOWrapper | None], *names: str) -> Iterator[None]:
    before = {name: getattr(sys, name) for name in names}
    for name in names:
        setattr(sys, name, make(name))
    try:
        yield
    finally:
        for name, stream in before.items():
            if getattr(sys, name) is not None:
                getattr(sys, name).close()
            setattr(sys, name, stream)


def without_reader(_: str) -> TextIOWrapper:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w", 1, encoding="utf-8")  # as standard error is


def full(_: str) -> TextIOWrapper:
    return open("/dev/full", "w", encoding="utf-8")


PRINTING: tuple[list[str], ...] = (
    ["--help"], ["--version"], [], ["tune", "--help"], ["lab"], ["predict", "--list"], ["measure", "train.py"],
    ["tune", "train.py"], ["show", "one.json"],
)  # fmt: skip


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_reader_who_has_left(words: list[str], project: Path) -> None:
    (project / "train.py").write_text("")
    save(samples.study_full(), project / "one.json")
    with streams(without_reader, "stdout"):
        assert cli.main(words) == 141


def test_a_reader_of_errors_who_has_left(project: Path) -> None:
    for words in (["measure", "no.py"], ["apply"]):
        with streams(without_reader, "stderr"):
            assert cli.main(words) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", PRINTING[4:], ids=" ".join)
def test_output_that_cannot_be_written(words: list[str], project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text("")
    save(samples.study_full(), project / "one.json")
    with streams(full, "stdout"):
        assert cli.main(words) == 2
    assert "cannot be written: No space left on device." in capsys.readouterr().err
    with streams(full, "stdout", "stderr"):
        assert cli.main(words) == 2


def test_no_folder_for_temporary_files(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert "Set TMPDIR to a folder that can be written." in refused(["measure", "--full", "train.py"], capsys)


def test_a_file_on_standard_input_is_a_part_of_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    answers = tmp_path / "answers.txt"
    answers.write_text("400\n")
    before = os.dup(0)
    try:
        with answers.open() as file:
            os.dup2(file.fileno(), 0)
        assert story.script(workbench_of("measure").study) == f"-- true < {answers}"
        reading, writing = os.pipe()
        os.dup2(reading, 0)
        assert story.script(workbench_of("measure").study) == "-- true"
    finally:
        os.dup2(before, 0)
        for descriptor in (before, reading, writing):
            os.close(descriptor)
