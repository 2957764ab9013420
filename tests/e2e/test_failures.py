"""Trainings that run out of memory, hang or lose their workers: each a state with its reason, and the study goes on."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.experiment.failure import failed
from hotlap.launch import Launcher
from hotlap.record import Failure, Plan, Run, Status
from tests.e2e.running import hotlap

pytestmark = pytest.mark.e2e

LOOP = """\
import os, signal, time
import torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self):
        return 10_000
    def __getitem__(self, index):
        if index == 300 and torch.utils.data.get_worker_info() is not None:
            {in_worker}
        return torch.ones(4)

def main():
    model = torch.nn.Linear(4, 1)
    weight = model.weight
    for step, x in enumerate(DataLoader(Items(), batch_size=10, num_workers={workers})):
        if step == 40:
            {in_training}
        model.zero_grad()
        model(x).mean().backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad

if __name__ == "__main__":
    main()
"""


def text_of(**way: str) -> str:
    return LOOP.format(**{"in_training": "pass", "in_worker": "pass", "workers": "0", **way})


def plan_for(script: Path) -> Plan:
    return Plan(command=(sys.executable, str(script)), cwd=str(script.parent), out="", steps=500, warmup=5)


def train(folder: Path, way: dict[str, str], *, timeout_s: float = 400.0, limit_s: float = 400.0) -> Run:
    """One training, in a process of its own."""
    script = folder / "train.py"
    script.write_text(text_of(**way))
    with Launcher(environment=lambda plan: {}, folders=[folder], timeout_s=timeout_s) as launcher:
        (run,) = launcher([plan_for(script)], limit_s=limit_s)
    return run


WAYS = (
    ({"in_training": "torch.empty(1 << 50)"}, Failure.HOST_MEMORY, "allocate memory"),
    ({"in_training": "bytearray(1 << 50)"}, Failure.HOST_MEMORY, "MemoryError"),
    ({"in_training": "os.kill(os.getpid(), signal.SIGKILL)"}, Failure.HOST_MEMORY, "SIGKILL"),
    ({"in_training": "os.abort()"}, Failure.CRASHED, "ended by SIGABRT, in train.py, line 18"),
    ({"in_worker": "os._exit(3)", "workers": "2"}, Failure.LOST_WORKERS, "lost its workers"),
    (
        {"in_worker": "os.kill(os.getpid(), signal.SIGKILL)", "workers": "2"},
        Failure.LOST_WORKERS,
        "lost its workers",
    ),
    ({"in_training": "raise torch.OutOfMemoryError('CUDA out of memory.')"}, Failure.DEVICE_MEMORY, "GPU's memory"),
)


def test_each_way_to_fail_is_told_from_the_others(tmp_path: Path) -> None:
    """As the trials of a study, which are forks where they can be, behind a run that comes to its end."""
    script = tmp_path / "train.py"
    script.write_text(text_of(in_training="break"))
    plan = plan_for(script)
    with Launcher(environment=lambda plan: {}, folders=[tmp_path], timeout_s=400.0, templates=True) as launcher:
        (ended,) = launcher([plan], limit_s=400.0)
        assert ended.status is Status.ENDED
        # A lever that writes into the script, or a check whether it changed, needs to know which file it is.
        assert next(iter(ended.sources)) == str(script.resolve())
        for way, kind, says in WAYS:
            (run,) = launcher([replace(plan, replaced={str(script): text_of(**way)})], limit_s=400.0)
            assert_failed(run, kind, says)


def test_a_process_of_its_own_that_is_killed_is_told_as_well_and_goes_before_hotlap(tmp_path: Path) -> None:
    way, kind, says = WAYS[2]
    score = "print(open('/proc/self/oom_score_adj').read(), flush=True); "
    run = train(tmp_path, {"in_training": score + way["in_training"]})
    assert_failed(run, kind, says)
    assert "1000" in run.output or not score, "the kernel's score of who goes first where memory runs out"


@pytest.mark.parametrize("where", ["in_training", "in_worker"])
def test_a_training_that_hangs_is_ended(tmp_path: Path, much_later: Path, where: str) -> None:
    # Its last step is seen within the second, then there are no more; seen later, the limit is waited for.
    hangs = f"time.sleep(1.0), open({str(much_later)!r}, 'w').close(), time.sleep(600)"
    run = train(tmp_path, {where: hangs, "workers": "1"}, timeout_s=200.0, limit_s=5000.0)
    assert_failed(run, Failure.HUNG, "then none for too long")


def assert_failed(run: Run, kind: Failure, says: str) -> None:
    found = failed(run)
    assert found is not None, run.status
    assert found.kind is kind, run.output
    assert says in found.why


@pytest.mark.slow
def test_a_trial_that_runs_out_of_memory_is_a_state_and_the_study_goes_on(tmp_path: Path) -> None:
    fails = "torch.ones(10 << 20), 'trim_threshold' not in os.environ.get('GLIBC_TUNABLES', '') or torch.empty(1 << 50)"
    (tmp_path / "train.py").write_text(LOOP.format(in_training=fails, in_worker="pass", workers=0))
    done = hotlap("tune", "--levers", "malloc", "--json", "-", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (trial,) = document["trials"]
    assert trial["failure"] == "out-of-host-memory"
    assert "the machine's memory ran out" in trial["why"]
    assert not trial["accepted"]
    assert document["state"] == "complete"
    assert document["result"]["levers"] == []
