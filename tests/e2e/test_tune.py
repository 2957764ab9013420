"""`hotlap tune` and `hotlap apply` as a user types them, on scripts that train, fail, and misbehave."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.record import State, Study, Verdict, load
from tests.e2e.running import OURS, hotlap, left_over, names, place, wait_for

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["crash.py"], 3, ["failed after 3 training steps: ValueError: the third step is too much"]),
        (["-m", "no.such.module"], 3, ["no.such.module"]),
        (["no_steps.py"], 4, ["ended without a training step"]),
        (["no_torch.py"], 4, ["never imported torch"]),
        (["--timeout", "2s", "forever.py"], 4, ["made no training step in time (2 s)"]),
        (["asks.py"], 3, ["reads standard input", "See that `python asks.py < answers.txt` runs by itself"]),
    ],
)
def test_what_cannot_be_tuned_gets_a_sentence_and_a_code(
    tmp_path: Path, words: list[str], code: int, says: list[str]
) -> None:
    for name in ("crash.py", "no_steps.py", "no_torch.py", "forever.py", "asks.py"):
        place(name, tmp_path)
    before = names(tmp_path)
    done = hotlap("tune", *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert all(one in done.stderr for one in says), done.stderr
    assert "hotlap/cli" not in done.stderr, "a traceback of ours"
    if words == ["crash.py"]:
        assert "Traceback (most recent call last)" in done.stderr, "the script's own is shown as it is"
        assert OURS not in done.stderr
        assert re.search(r'File ".*crash\.py", line 8', done.stderr)
    assert names(tmp_path) == before
    wait_for(lambda: not left_over(tmp_path), what="end of all processes")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["missing.py"], "There is no file missing.py"),
        (["."], "is a folder"),
        (["data.csv"], "is not a script for Python"),
        (["broken.py"], "line 1"),
        ([], "Which training"),
        (["-m"], "needs the name of a module"),
        (["--"], "needs a command"),
        (["--budget", "soon", "crash.py"], "--budget soon is not a time"),
        (["--levers", "warp-drive", "crash.py"], "no lever 'warp-drive'"),
        (["--", "no-such-program"], "no-such-program"),
    ],
)
def test_words_that_name_no_training_start_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    place("crash.py", tmp_path)
    (tmp_path / "data.csv").write_text("1;2;3\n4 5\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    before = names(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *words]) == 2
    assert says in capsys.readouterr().err
    assert names(tmp_path) == before


def test_standard_input_is_given_to_every_run(tmp_path: Path) -> None:
    place("asks.py", tmp_path)
    done = hotlap("tune", "--budget", "20s", "--levers", "tf32", "--json", "-", "asks.py", cwd=tmp_path, stdin="400\n")
    assert done.returncode == 0, done.stderr
    baseline = json.loads(done.stdout)["baseline"]
    assert baseline
    assert all(run["step_s"] for run in baseline)


def test_ctrl_c_saves_what_is_known_and_the_same_command_goes_on(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place("by_hand.py", tmp_path)
    command = [sys.executable, "-m", "hotlap", "tune", "by_hand.py", "100000"]
    scratch = tmp_path_factory.mktemp("scratch")
    environ = {**os.environ, "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for(lambda: list(tmp_path.glob(".hotlap/*/study.json")), what="study.json")
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    wait_for(lambda: not left_over(tmp_path), what="end of all processes")
    assert not list(scratch.glob("hotlap-*"))
    (path,) = tmp_path.glob(".hotlap/*/study.json")
    interrupted = load(path, Study)
    assert interrupted.state is State.INTERRUPTED
    assert interrupted.baseline
    done = hotlap("tune", "--budget", "10s", "by_hand.py", "100000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "going on with the study" in done.stdout
    finished = load(path, Study)
    assert finished.state is State.COMPLETE
    assert finished.baseline[0] == interrupted.baseline[0]
    assert finished.result is not None
    accepted = [one for trial in finished.trials if trial.kind == "lever" and trial.accepted for one in trial.levers]
    assert all(one in accepted for one in finished.result.levers)
    assert not finished.result.levers or finished.result.verdict is Verdict.UNHARMED
