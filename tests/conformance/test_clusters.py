"""Each scheduler is asked the same: a cluster that stands in for it, and the real one where it runs here."""

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.experiment.runs import run_trial_groups
from hotlap.launch import Backend, Launcher, Order, Placed, Ray, Slurm
from hotlap.launch.placed import PRINTED, State
from hotlap.record import Machine, Plan, Status, Turn
from tests.conformance.clusters import Cluster, serving, write_slurm
from tests.e2e.running import wait_for

BACKENDS: dict[str, Callable[[], Backend]] = {"slurm": Slurm, "ray": Ray}


@cache
def slurm_runs() -> bool:
    """A Slurm whose node has nothing to do."""
    if shutil.which("sbatch") is None or shutil.which("sinfo") is None:
        return False
    done = subprocess.run(["sinfo", "--noheader", "--format=%t"], capture_output=True, text=True, check=False)
    return "idle" in done.stdout.split()


@cache
def ray_runs() -> bool:
    """A dashboard on this machine."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:8265/api/version", timeout=2.0):
            return True
    except OSError:
        return False


REAL = [pytest.param(name, marks=pytest.mark.cluster) for name in BACKENDS]


def real(name: str) -> Backend:
    """Asked for by a test, not when tests are collected: a Slurm that is installed and stopped takes 9 s to answer."""
    if not {"slurm": slurm_runs, "ray": ray_runs}[name]():
        pytest.skip(f"no {name} runs here")
    return BACKENDS[name]()


@contextmanager
def standing_in(name: str, folder: Path, *, num_nodes: int = 1) -> Iterator[tuple[Backend, Cluster]]:
    cluster = Cluster(num_nodes)
    with serving(cluster) as port, pytest.MonkeyPatch.context() as patch:
        commands = folder / "commands"
        commands.mkdir()
        write_slurm(commands, port)
        patch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("RAY_API_SERVER_ADDRESS", f"http://127.0.0.1:{port}")
        yield BACKENDS[name](), cluster


@pytest.fixture(params=["stand-in of slurm", "stand-in of ray", *REAL])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    """With one node."""
    if not request.param.startswith("stand-in"):
        yield real(request.param)
        return
    with standing_in(request.param.removeprefix("stand-in of "), tmp_path) as (backend, _):
        yield backend


@pytest.fixture(params=list(BACKENDS))
def faulty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Backend, Cluster]]:
    """A stand-in, and what goes wrong there."""
    with standing_in(request.param, tmp_path) as found:
        yield found


def submit(backend: Backend, script: str, folder: Path) -> str:
    folder.mkdir()
    return backend.submit(("sh", "-c", script), folder, limit_s=60.0)


def test_a_job_runs_in_the_environment_of_the_user_and_prints_into_its_folder(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WITH_QUOTES", "it's\n$HOME")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    job = submit(backend, 'printf "%s, %s" "$WITH_QUOTES" "$OMP_NUM_THREADS"', tmp_path / "job")
    wait_for(lambda: backend.state(job)[0] is State.OVER, what="end")
    assert (tmp_path / "job" / PRINTED).read_text() == "it's\n$HOME, "


def test_a_job_that_fails_is_over(backend: Backend, tmp_path: Path) -> None:
    job = submit(backend, "exit 3", tmp_path / "job")
    wait_for(lambda: backend.state(job)[0] is State.OVER, what="end")


def test_a_job_has_the_node_for_itself_and_is_cancelled_alone(backend: Backend, tmp_path: Path) -> None:
    first = submit(backend, f"touch {tmp_path}/runs; exec sleep 600", tmp_path / "first")
    wait_for(lambda: backend.state(first)[0] is State.PLACED and (tmp_path / "runs").exists(), what="first job")
    second = submit(backend, f"touch {tmp_path}/begun; exec sleep 600", tmp_path / "second")
    try:
        assert backend.state(second)[0] is backend.state(first)[0] is State.PLACED
        assert not (tmp_path / "begun").exists()
        backend.cancel(first)
        wait_for(lambda: backend.state(first)[0] is State.OVER, what="end of the first job")
        wait_for((tmp_path / "begun").exists, what="second job")
        assert backend.state(second)[0] is State.PLACED
    finally:
        backend.cancel(second)
    wait_for(lambda: backend.state(second)[0] is State.OVER, what="end of the second job")
    backend.cancel(second)  # nothing is said of what is over


def test_a_job_that_the_scheduler_does_not_know_is_not_waited_for(backend: Backend) -> None:
    assert backend.state("999999")[0] in (State.OVER, State.LOST)
    backend.cancel("999999")


def test_a_job_whose_node_was_taken_is_lost(faulty: tuple[Backend, Cluster], tmp_path: Path) -> None:
    backend, cluster = faulty
    cluster.num_to_lose = 1
    assert backend.state(submit(backend, ":", tmp_path / "job"))[0] is State.LOST


def test_a_scheduler_that_does_not_answer_is_no_end_of_a_job(faulty: tuple[Backend, Cluster], tmp_path: Path) -> None:
    backend, cluster = faulty
    job = submit(backend, "exec sleep 600", tmp_path / "job")
    wait_for(lambda: backend.state(job)[0] is State.PLACED, what="job")
    cluster.silent = True
    assert backend.state(job)[0] is State.SILENT
    cluster.silent = False
    assert backend.state(job)[0] is State.PLACED


def test_a_refusal_is_told_in_the_words_of_the_scheduler(faulty: tuple[Backend, Cluster], tmp_path: Path) -> None:
    backend, cluster = faulty
    cluster.refusal = "you have no account here"
    with pytest.raises(UserError, match=r"refused the job: .*you have no account here\.$"):
        submit(backend, ":", tmp_path / "job")


@contextmanager
def runs_of(name: str, folder: Path) -> Iterator[Launcher | Placed]:
    """What makes runs: here, or as jobs, of which a stand-in loses the first."""
    order = Order(folders=(str(folder),), timeout_s=400.0, memory_bytes=None)
    if name == "local":
        with Launcher(environment=lambda _: {}, folders=[folder], timeout_s=400.0) as launcher:
            yield launcher
    elif name in BACKENDS:
        with Placed(real(name), folder / "jobs", nodes=2, order=order) as placed:
            yield placed
    else:
        with standing_in(name.removeprefix("stand-in of "), folder, num_nodes=2) as (backend, cluster):
            cluster.num_to_lose = 1
            with Placed(backend, folder / "jobs", nodes=2, order=order) as placed:
                yield placed
            assert len(cluster.jobs) == 4, "one is placed again"


# An optimizer would import torch's compiler, which takes as long as torch: there are nine of these processes.
TRAIN = """
import torch
model = torch.nn.Linear(20, 1)
for _ in range(400):
    model.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    with torch.no_grad():
        model.weight -= 0.05 * model.weight.grad
"""


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["local", "stand-in of slurm", "stand-in of ray", *REAL])
def test_trial_groups_come_to_the_same_wherever_they_run(name: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    plan = Plan(command=(sys.executable, "train.py"), cwd=str(tmp_path), out="", steps=22, warmup=2, seed=0)
    # Runs that take turns read no losses but as evidence.
    taking_turns = replace(plan, turn=Turn(steps=11, ready="", go=""), evidence=True)
    broken = Plan(command=(sys.executable, "none.py"), cwd=plan.cwd, out="")
    with runs_of(name, tmp_path) as runs:
        if isinstance(runs, Placed):
            assert isinstance(runs.machine(), Machine)
        pair, (single, failed) = run_trial_groups(
            runs, [[taking_turns, taking_turns], [plan, broken]], limits_s=[400.0, 400.0]
        )
    assert [run.status for run in (*pair, single)] == [Status.COMPLETE] * 3
    assert [len(run.step_s) for run in (*pair, single)] == [22, 22, 22]
    assert pair[0].loss == pair[1].loss == single.loss
    assert failed.status is not Status.COMPLETE and "none.py" in failed.output
    assert not (tmp_path / "jobs").exists()
