"""`hotlap measure` as a user types it, on scripts that train, fail, and misbehave."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.record import Phase, Purpose, State, Status, Study, load
from tests.e2e.running import SCRIPTS, hotlap, left_over, names, place, wait_for

pytestmark = pytest.mark.e2e


def study_in(folder: Path) -> Study:
    (path,) = folder.glob(".hotlap/*/study.json")
    return load(path, Study)


def test_a_slow_data_set_is_found_and_all_reports_are_written(tmp_path: Path) -> None:
    script = place("late_items.py", tmp_path)
    before = script.read_bytes()
    wanted = ["--json", "s.json", "--html", "s.html", "--markdown", "s.md"]
    done = hotlap("measure", "--steps", "40", *wanted, "late_items.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "input-bound" in done.stdout
    assert "If batches were free" in done.stdout
    assert "Trials" not in done.stdout
    study = study_in(tmp_path)
    assert study.purpose is Purpose.MEASURE
    assert study.state is State.COMPLETE
    assert study.findings[0].code == "input-bound"
    assert "Waves.__getitem__: time.sleep" in study.findings[0].evidence
    assert "input" in {ceiling.name for ceiling in study.ceilings}
    run = study.baseline[0]
    assert len(run.step_s) == 40
    assert run.excerpt is not None
    assert len(run.excerpt.ends_s) == 24
    first = run.step_index.index(run.excerpt.first)
    assert run.excerpt.ends_s == pytest.approx(list(accumulate(run.step_s[first:]))[:24])
    assert load(tmp_path / "s.json", Study) == study
    assert "<svg" in (tmp_path / "s.html").read_text()
    assert "input-bound" in (tmp_path / "s.md").read_text()
    assert script.read_bytes() == before
    assert names(tmp_path) == {"late_items.py", ".hotlap", "s.json", "s.html", "s.md"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    folder = tmp_path_factory.mktemp("killed")
    place("killed.py", folder)
    return folder, hotlap("measure", "--quick", "killed.py", "60", cwd=folder)


def test_of_a_training_that_was_killed_all_is_told_that_was_measured_until_then(
    killed: tuple[Path, "subprocess.CompletedProcess[str]"],
) -> None:
    folder, done = killed
    assert done.returncode == 3
    told = "it was ended by SIGKILL after 60 training steps, in or after a backward pass; the system kills like that"
    assert f"killed.py failed: {told}" in done.stderr
    assert "Time per step" in done.stdout
    assert (done.stdout + done.stderr).count("four thousand numbers") == 1
    run = study_in(folder).baseline[0]
    assert run.status is Status.KILLED
    assert run.step_index == tuple(range(20, 60)), "without the warm-up"
    assert all(step_s > 0.06 for step_s in run.step_s[-14:])
    for i, step_s in enumerate(run.step_s):
        assert sum(parts[i] for parts in run.phase_s.values() if parts) == pytest.approx(step_s)
    assert run.loaders
    assert run.num_samples == (4,) * 40
    assert run.excerpt is not None
    assert run.excerpt.first + len(run.excerpt.ends_s) == 60
    (page,) = folder.glob(".hotlap/*/report.html")
    assert "ended by SIGKILL" in page.read_text()


def test_the_exported_trace_holds_the_spans_of_steps_as_they_went(
    killed: tuple[Path, "subprocess.CompletedProcess[str]"],
) -> None:
    folder, _ = killed
    done = hotlap("show", "--perfetto", "trace.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "trace.json was written" in done.stderr
    run = study_in(folder).baseline[0]
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    spans = [one for one in events if one["ph"] == "X"]
    steps = [one for one in spans if one["name"].startswith("step ")]
    assert [one["name"] for one in steps] == [f"step {number}" for number in range(36, 60)]
    for i, step in enumerate(steps, 16):
        begin, end = step["ts"], step["ts"] + step["dur"]
        assert step["dur"] == pytest.approx(1e6 * run.step_s[i])
        within = [one for one in spans if one not in steps and begin - 0.01 <= one["ts"] < end - 0.01]
        order = [one["name"] for one in sorted(within, key=lambda one: one["ts"]) if one["name"] != "other"]
        assert order == ["input", "optimizer", "forward", "backward", "optimizer"]
        assert sum(one["dur"] for one in within) == pytest.approx(step["dur"])
        for phase, parts in run.phase_s.items():
            lasted = sum(one["dur"] for one in within if one["name"] == phase)
            assert lasted == pytest.approx(1e6 * parts[i] if parts else 0.0, abs=0.01)


def test_a_training_for_real_that_is_killed_at_once_is_told_as_well(tmp_path: Path) -> None:
    place("killed.py", tmp_path)
    done = hotlap("measure", "--full", "killed.py", "60", cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert "ended by SIGKILL" in done.stderr
    run = study_in(tmp_path).baseline[0]
    assert run.status is Status.KILLED
    assert run.step_index[-1] == 59


def test_a_module_is_measured(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for path in (SCRIPTS / "package").glob("*.py"):
        (tmp_path / "package" / path.name).write_text(path.read_text())
    (tmp_path / "package" / "settings.py").write_text("STEPS = 100_000\n")
    words = ["-m", "package.train", "--name", "value"]
    done = hotlap("measure", "--quick", "--steps", "40", "--json", "-", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    study = json.loads(done.stdout)
    (run,) = study["baseline"]
    assert len(run["step_s"]) >= 8
    for i, step_s in enumerate(run["step_s"]):
        assert sum(parts[i] for parts in run["phase_s"].values() if parts) == pytest.approx(step_s, rel=0.01)
    assert "Time per step" in done.stderr
    assert "optimizer" in {ceiling["name"] for ceiling in study["ceilings"]}


def test_what_cannot_be_measured_gets_a_sentence_and_a_code(tmp_path: Path) -> None:
    """As in `hotlap tune`, whose tests have more of these."""
    place("no_torch.py", tmp_path)
    done = hotlap("measure", "no_torch.py", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "never imported torch" in done.stderr
    assert "Traceback" not in done.stderr
    assert names(tmp_path) == {"no_torch.py"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "hotlap measure train.py"),
        (["missing.py"], "There is no file missing.py"),
        (["--", "no-such-program"], "no-such-program"),
        (["--full", "--", "no-such-program"], "no program no-such-program here that can be started"),
    ],
)
def test_words_that_name_no_training_start_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["measure", *words]) == 2
    assert says in capsys.readouterr().err
    assert not names(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_in_the_first_run_ends_with_what_was_measured(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("TMPDIR", str(scratch))
    with started("measure", "--steps", "100000", "endless.py", str(scratch / "made"), cwd=tmp_path) as process:
        wait_for((scratch / "made").exists, what="step")
        process.send_signal(number)
        if number == signal.SIGTERM:
            process.send_signal(number)  # `timeout` tells the command, and then its group
        out, err = process.communicate(timeout=400)
    # A shell shows 130 for both: Python ends itself by the signal where that met it inside of an exec (an import of a
    # module that defines a dataclass, say), though the exception was caught.
    assert process.returncode in (128 + number, -number), err
    assert "Traceback" not in err
    assert "Time per step" in out
    by = "" if number == signal.SIGINT else f" by {number.name}"
    assert out.endswith(f"Interrupted{by}. `hotlap show` has what was measured until then.\n")
    study = study_in(tmp_path)
    assert study.state is State.INTERRUPTED
    assert len(study.baseline[0].step_s) > 30
    assert not list(scratch.glob("hotlap-*"))
    wait_for(lambda: not left_over(tmp_path), what="end of all processes")


ENDLESS = """
import sys, time
from pathlib import Path
import torch
weights = torch.zeros(3, requires_grad=True)
for step in range(1_000_000):
    time.sleep(0.005)
    weights.grad = None
    weights.square().sum().backward()
    if step == 100:
        Path(sys.argv[1]).touch()
"""


def test_a_closed_terminal_ends_it_and_the_study_is_kept(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        made = str(tmp_path.parent / "made")
        os.execv(sys.executable, [sys.executable, "-m", "hotlap", "measure", "--steps", "100000", "endless.py", made])
    wait_for((tmp_path.parent / "made").exists, what="step")
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGHUP
    assert study_in(tmp_path).state is State.INTERRUPTED
    assert list(tmp_path.glob(".hotlap/*/report.html"))
    wait_for(lambda: not left_over(tmp_path), what="end of all processes")


# To the end, for real


def full(tmp_path: Path, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    place("to_its_end.py", tmp_path)
    return hotlap("measure", "--full", *words, cwd=tmp_path, stdin=stdin)


def plain(tmp_path: Path, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    folder = tmp_path / "plain"
    folder.mkdir()
    place("to_its_end.py", folder)
    return subprocess.run(
        [sys.executable, *words], cwd=folder, input=stdin, capture_output=True, text=True, check=False, timeout=400
    )


@pytest.mark.parametrize("ending", ["exit", "crash", "leaves"])
def test_a_full_run_ends_as_it_would_without_us(tmp_path: Path, ending: str) -> None:
    stdin, quiet, asks = ("two\nlines\n", ("--quiet",), ("asks",)) if ending == "exit" else (None, (), ())
    expected = plain(tmp_path, "to_its_end.py", ending, "500", *asks, stdin=stdin)
    done = full(tmp_path, *quiet, "to_its_end.py", ending, "500", *asks, stdin=stdin)
    assert done.returncode == expected.returncode
    assert done.stdout == expected.stdout
    said = expected.stderr.replace(str(tmp_path / "plain"), str(tmp_path))
    assert done.stderr == said if quiet else done.stderr.startswith(said)
    assert (tmp_path / "written.txt").read_text() == "kept"
    if ending == "leaves":
        return  # it left too early for a record; the next test has one that did not
    run = study_in(tmp_path).baseline[0]
    assert run.long is not None
    assert run.long.num_steps == 480  # twenty are warm-up
    assert run.step_index[-1] == 499
    assert run.seed is None
    assert run.status is (Status.COMPLETE if expected.returncode == 0 else Status.CRASHED)
    assert (run.share(Phase.FORWARD) or 0) > 0


def test_a_full_run_without_steps_keeps_its_exit_code(tmp_path: Path) -> None:
    place("no_torch.py", tmp_path)
    done = hotlap("measure", "--full", "no_torch.py", cwd=tmp_path)
    assert done.returncode == 0
    assert "no training step of no_torch.py was seen" in done.stderr
    assert not list(tmp_path.glob(".hotlap/*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_comes_once_and_its_end_is_ours(tmp_path: Path, number: signal.Signals) -> None:
    place("to_its_end.py", tmp_path)
    with started("measure", "--full", "to_its_end.py", "waits", "100000", cwd=tmp_path) as process:
        wait_for_line(process, "trains")
        process.send_signal(number)
        out, err = process.communicate(timeout=400)
    if number == signal.SIGINT:
        assert process.returncode == 7
        assert out == "interrupted\nfinally\n"
        assert study_in(tmp_path).baseline[0].exit_code == 7
    else:
        assert process.returncode == -signal.SIGTERM
        assert out == ""
    assert "Traceback" not in err


def test_a_signal_that_the_training_listens_to_reaches_it_and_what_was_known_survives_a_kill(tmp_path: Path) -> None:
    place("to_its_end.py", tmp_path)
    with started("measure", "--full", "to_its_end.py", "listens", "100000", cwd=tmp_path) as process:
        wait_for_line(process, "trains")
        process.send_signal(signal.SIGUSR1)
        wait_for_line(process, "USR1 came")
        wait_for(lambda: list(tmp_path.glob(".hotlap/*/study.json")), what="study.json")
        process.kill()
        process.communicate(timeout=400)
    run = study_in(tmp_path).baseline[0]
    assert run.long is not None
    assert run.long.num_steps > 0
    assert run.step_s


@contextmanager
def started(*words: str, cwd: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "hotlap", *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_line(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdout is not None
    for text in process.stdout:
        if text.strip() == line:
            return
    raise AssertionError(f"it ended without {line!r}")
