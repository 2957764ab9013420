"""`hotlap run` as a user types it: the training for real, under the levers of a study, and nothing of it touched."""

import hashlib
import importlib.metadata
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap import machine
from hotlap.cli import main
from hotlap.record import CallSite, Interval, LeverSpec, Result, Run, State, Status, Study, Verdict, save
from tests.unit.tune.world import ADAM

pytestmark = pytest.mark.e2e

SCRIPT = """\
import os
import signal
import sys

import torch

import helper

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.Adam(model.parameters())
print("threads", torch.get_num_threads(), "fused", optimizer.param_groups[0].get("fused"), flush=True)
print("argv", sys.argv, __name__, os.path.basename(__file__), "stdin", sys.stdin.read(), flush=True)
print("to standard error", file=sys.stderr)
if "--memory" in sys.argv:
    from hotlap.data.item_cache.memory import given_bytes

    print("memory", given_bytes(), flush=True)
if "--wait" in sys.argv:
    signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
    print("waiting", os.getpid(), flush=True)
    signal.pause()
    signal.pause()
open("written.txt", "w").write("for real")
raise SystemExit(7)
"""

LEVERS: tuple[LeverSpec, ...] = ({"name": "threads", "count": 3}, {"name": "fused-optimizer"})


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "hotlap", "run", *words]


def hotlap(*words: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=cwd, input=stdin, capture_output=True, text=True, timeout=400, check=False
    )


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What is said to words that are refused: in the test's own process, which must not become the training."""

    def begun(*_: object) -> None:
        raise AssertionError("the training was begun")

    def refused(*words: str, cwd: Path) -> str:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(os, "execvpe", begun)
        assert main(["run", *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return refused


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A script and its study, which accepted two levers."""
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("x = 1\n")
    keep(study_of(tmp_path), tmp_path)
    return tmp_path


def _site(path: Path, code: str) -> CallSite:
    """Where this call is."""
    line, text = next((k, text) for k, text in enumerate(SCRIPT.splitlines(), 1) if code in text)
    col = text.index(code)
    return CallSite(
        calls=code.partition("(")[0],
        path=str(path),
        sha256=sha256(path),
        line=line,
        end_line=line,
        col=col,
        end_col=col + len(code),
        detail={"optimizer": 0},
    )


def study_of(folder: Path, *, command: tuple[str, ...] = ("train.py", "--lr", "0.1")) -> Study:
    run = Run(
        status=Status.COMPLETE,
        versions={"python": platform.python_version(), "torch": importlib.metadata.version("torch")},
        optimizers=(ADAM,),
        call_sites=(_site(folder / "train.py", "torch.optim.Adam(model.parameters())"),),
        sources={str(folder / name): sha256(folder / name) for name in ("train.py", "helper.py")},
    )
    return Study(
        command=command,
        cwd=str(folder),
        created="2026-01-02T03:04:05+00:00",
        key="k",
        state=State.COMPLETE,
        machine=machine.look(),
        baseline=(run,),
        result=Result(
            levers=LEVERS, speedup=Interval(low=1.1, mid=1.2, high=1.3), verdict=Verdict.UNHARMED, why="Bit-equal."
        ),
    )


def keep(study: Study, folder: Path, *, name: str = "train-1") -> None:
    save(study, folder / ".hotlap" / name / "study.json")


@pytest.mark.parametrize("words", [("train.py", "--memory"), ("--", sys.executable, "-u", "train.py", "--memory")])
def test_the_training_runs_for_real_under_the_levers_in_as_much_memory_as_the_study_had(
    words: tuple[str, ...], project: Path
) -> None:
    """Also where a launcher starts the script: `python -u SCRIPT` is what torchrun starts."""
    study = study_of(project, command=words)
    assert study.machine is not None
    keep(replace(study, machine=replace(study.machine, memory_limit_bytes=3_000_000_000)), project)
    done = hotlap(*words, cwd=project, stdin="a line")
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == [
        "threads 3 fused True",
        "argv ['train.py', '--memory'] __main__ train.py stdin a line",
        "memory 3000000000",
    ]
    assert done.stderr == "to standard error\n"
    assert (project / "written.txt").read_text() == "for real"
    assert (project / "train.py").read_text() == SCRIPT


def test_signals_reach_the_training_and_how_it_ends_is_seen(project: Path) -> None:
    keep(study_of(project, command=("train.py", "--wait")), project)
    process = subprocess.Popen(
        command("train.py", "--wait"), cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    pid = next(int(line.split()[1]) for line in lines if line.startswith("waiting"))
    assert pid == process.pid, "hotlap has become the training"
    process.send_signal(signal.SIGUSR1)
    assert next(lines) == "heard\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=400) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda folder: (folder / "train.py").write_text(SCRIPT + "\n"), "train.py changed"),
        (lambda folder: (folder / "helper.py").write_text("x = 2\n"), "helper.py changed"),
        (lambda folder: (folder / "helper.py").unlink(), "helper.py is gone"),
        (lambda folder: _other(folder, processor="a Z80"), "the processor was a Z80 and is"),
        (lambda folder: _other(folder, gpus=("NVIDIA H200",)), "the GPU was NVIDIA H200 and is"),
        (lambda folder: _other(folder, usable_cores=64.0), "the number of usable cores was 64 and is"),
    ],
)
def test_what_is_not_as_it_was_studied_is_named_and_nothing_runs(
    project: Path, refused: Callable[..., str], change: object, says: str
) -> None:
    assert callable(change)
    change(project)
    said = refused("train.py", "--lr", "0.1", cwd=project)
    assert says in said
    assert "hotlap tune" in said


def _other(folder: Path, **fields: object) -> None:
    study = study_of(folder)
    assert study.machine is not None
    keep(replace(study, machine=replace(study.machine, **fields)), folder)  # type: ignore[arg-type]


def test_other_arguments_are_refused_unless_they_are_wanted(project: Path, refused: Callable[..., str]) -> None:
    assert "it was studied as `train.py --lr 0.1`" in refused("train.py", "--lr", "0.2", cwd=project)
    done = hotlap("--allow-different", "--memory", "2GB", "train.py", "--memory", cwd=project)
    assert done.returncode == 7, done.stderr
    assert "threads 3" in done.stdout
    assert "memory 2000000000\n" in done.stdout


def test_the_newest_complete_study_of_these_very_words_counts(project: Path) -> None:
    result = replace(study_of(project).result, levers=({"name": "threads", "count": 2},))  # type: ignore[type-var]
    keep(replace(study_of(project), result=result), project, name="train-2")
    keep(study_of(project, command=("train.py", "--lr", "0.3")), project, name="train-3")
    keep(replace(study_of(project), state=State.INTERRUPTED), project, name="train-4")
    now = time.time()
    for age in range(1, 5):
        os.utime(project / ".hotlap" / f"train-{age}" / "study.json", (now + age, now + age))
    done = hotlap("train.py", "--lr", "0.1", cwd=project)
    assert "threads 2 fused" in done.stdout, done.stderr


def test_without_a_study_or_a_lever_it_says_what_to_do(project: Path, refused: Callable[..., str]) -> None:
    (project / "other.py").write_text("x = 1\n")
    assert "no complete study of other.py" in refused("other.py", cwd=project)
    result = replace(study_of(project).result, levers=())  # type: ignore[type-var]
    keep(replace(study_of(project), result=result), project)
    assert "accepted no lever: run train.py without hotlap" in refused("train.py", "--lr", "0.1", cwd=project)
