"""Trainings in forks of a template: the numbers are those of a fresh process, bit for bit, and so is all else."""

import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from hotlap.launch import Launcher
from hotlap.launch.starting import can_fork
from hotlap.record import Plan, Run, Status, Turn
from tests.e2e.running import SCRIPTS, Forks

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not can_fork((sys.executable, "train.py")), reason="templates are for Linux"),
]

# What the gate compares, and what levers look at.
_EQUAL = (
    *("loss", "batch_digest", "rng_digest", "updates", "learning_rates", "num_samples", "num_updates", "step_index"),
    *("call_sites", "sources", "loaders", "optimizers", "num_threads", "status", "exit_code", "error", "output"),
)


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=400.0, templates=True) as launcher:
        yield launcher


def plan_for(*words: str, cwd: Path = SCRIPTS, **settings: object) -> Plan:
    settings = {"steps": 24, "warmup": 0, "evidence": True, **settings}
    return Plan(command=(sys.executable, *words), cwd=str(cwd), out="", **settings)  # type: ignore[arg-type]


def run(launcher: Launcher, plan: Plan) -> Run:
    (found,) = launcher([plan], limit_s=400.0)
    return found


def seen(run: Run) -> dict[str, object]:
    untimed = replace(run, loaders=tuple(replace(loader, item_s=None) for loader in run.loaders))
    return {name.name: getattr(untimed, name.name) for name in fields(untimed) if name.name in _EQUAL}


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        *("workers.py", "lbfgs.py", "gan.py", "scaler.py", "late_items.py", "plain.py", "sentences.py"),
        *("lightning_fit.py", "transformers_train.py", "accelerate_loop.py"),
    ],
)
def test_scripts_and_frameworks_train_as_forks_as_in_processes_of_their_own(launcher: Launcher, script: str) -> None:
    name, _, framework = script.partition("_")
    if framework:
        pytest.importorskip(name)
    plan = plan_for(script, steps=8)
    afresh = run(launcher, plan)
    assert len(afresh.loss) > 4
    assert not afresh.forked
    fork = run(launcher, plan)
    assert launcher.why_afresh is None
    assert fork.forked
    assert seen(fork) == seen(afresh)
    if afresh.status is Status.COMPLETE:
        assert run(launcher, replace(plan, reseed=1)).loss != afresh.loss


DRAWS_FIRST = """
import random, os, sys
first = random.random()
open("written", "a").write(__name__)
import numpy as np
second = np.random.rand()
print("torch" in sys.modules, first, second)
import torch
from torch.utils.data import DataLoader
print(random.random(), np.random.rand(), torch.rand(1))

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    data = [torch.randn(4) for _ in range(64)]
    for method in ("fork", "spawn"):
        loader = DataLoader(data, 4, shuffle=True, num_workers=1, multiprocessing_context=method)
        for batch in loader:
            model.zero_grad()
            loss = model(batch).square().mean() * random.random()
            loss.backward()
            with torch.no_grad():
                model.weight -= 0.01 * model.weight.grad
    print(loss.item(), random.random(), np.random.rand(), file=sys.stderr)
    raise SystemExit(3)
"""


def test_random_numbers_before_and_after_torch_are_the_same_and_what_is_written_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DRAWS_FIRST)
    plan = plan_for("train.py", cwd=tmp_path, steps=1000)
    with Launcher(environment=lambda plan: {}, folders=[tmp_path], timeout_s=400.0, templates=True) as launcher:
        afresh, fork, reseeded = (run(launcher, one) for one in (plan, plan, replace(plan, reseed=1)))
        assert launcher.why_afresh is None
    assert afresh.exit_code == 3
    assert len(afresh.loss) == 32
    assert not afresh.forked
    assert fork.forked
    assert reseeded.forked
    assert seen(fork) == seen(afresh)
    assert reseeded.loss != afresh.loss
    assert launcher.not_enclosed or [path.name for path in tmp_path.iterdir()] == ["train.py"]


WRAPPER = """
import random
early = random.random()
import torch
drawn = random.getrandbits(24)
from torch import manual_seed, set_num_threads
from torch.autograd import backward
"""

RUN_AS_MODULE = """
import random, sys
early, first = "torch" in sys.modules, random.random()
import wrapper
import torch
from hotlap.data import wrapper as of_hotlap
same = [getattr(wrapper, name) is getattr(torch, name) for name in ("manual_seed", "set_num_threads")]
same.append(wrapper.backward is torch.autograd.backward)
same.append(of_hotlap.at_work is sys.modules["hotlap.at_work"])
print(first, wrapper.drawn >= 0, random.random(), file=sys.stderr)
print(early, same, file=sys.stderr, flush=True)
wrapper.manual_seed(3)
model = torch.nn.Linear(4, 1)
for _ in range(40):
    model.zero_grad()
    wrapper.backward(model(torch.randn(8, 4)).square().mean())
    model.weight.data.sub_(0.1 * model.weight.grad)
"""


def test_a_module_imports_torch_by_another_one_with_its_seeds_and_hooks_and_all_of_hotlap_once(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "wrapper.py").write_text(WRAPPER)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    (tmp_path / "train.py").write_text(RUN_AS_MODULE)
    plan = plan_for("-m", "train", cwd=tmp_path, reseed=1)
    afresh, fork = run(launcher, plan), run(launcher, plan)
    assert not afresh.forked
    assert fork.forked
    assert len(afresh.loss) == 24
    assert afresh.output.splitlines()[-1] == "False [True, True, True, True]"
    assert seen(fork) == seen(afresh)


def test_processes_of_a_trial_group_take_turns_as_forks(forks: Forks) -> None:
    plain = {"steps": 30, "warmup": 5, "turn": Turn(steps=5, ready="", go="")}
    found = forks.together("workers.py", plain, {**plain, "arms": (({"name": "threads", "count": 1},),)})
    assert [run.status for run in found] == [Status.COMPLETE] * 2
    assert [run.forked for run in found] == [True, True]
    assert [run.probe_s for run in found] == [None, None], "nobody asks what the probe cost a run that is compared"
    assert all(set(run.block) == {0, 1, 2, 3, 4, 5} for run in found)
    assert found[1].num_threads == 1


def test_a_script_that_sets_what_libraries_read_is_started_afresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    text = "import os\nos.environ['OMP_NUM_THREADS'] = '1'\n" + SCRIPTS.joinpath("by_hand.py").read_text()
    (tmp_path / "train.py").write_text(text)
    with Launcher(environment=lambda plan: {}, folders=[tmp_path], timeout_s=400.0, templates=True) as launcher:
        runs = [run(launcher, plan_for("train.py", cwd=tmp_path)) for _ in range(2)]
        assert launcher.why_afresh == "the script sets OMP_NUM_THREADS in its environment"
    assert not any(run.forked for run in runs)
    assert [run.num_threads for run in runs] == [1, 1]
