"""Real commands under `hotlap predict`: whatever marks a step, one of them comes back as operators."""

import sys
from pathlib import Path

import pytest

from hotlap.launch import Launcher
from hotlap.predict import Kind, Precision, Workload
from hotlap.record import Phase, Plan, Run, Status, decode
from tests.e2e.running import SCRIPTS, Forks

pytestmark = pytest.mark.e2e

AMP = """
import sys
import warnings
import torch
from torch import nn

warnings.simplefilter("ignore")
net, batch = nn.Linear(16, 16), torch.randn(4, 16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(40):
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16, sys.argv[1] == "True"):
        loss = net(batch).square().mean()
    loss.backward()
    optimizer.step()
"""


VALIDATES = """
import torch
from torch import nn

net, teacher, batch = nn.Linear(16, 16), nn.Linear(16, 16), torch.randn(4, 16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    for _ in range(4):
        with torch.no_grad():
            wanted = teacher(batch)
        optimizer.zero_grad()
        (net(batch) - wanted).square().mean().backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for _ in range(100):
            net(batch)
    net.train()
"""


def traced(launcher: Launcher, *command: str) -> tuple[Run, Workload]:
    """Of a script with its words, or of a command that starts with a shell."""
    plan = Plan(
        command=command if command[0] == "sh" else (sys.executable, *command),
        cwd=str(SCRIPTS),
        out="",
        steps=8,
        warmup=3,
        profilers=("workload",),
    )
    (run,) = launcher([plan], limit_s=400.0)
    return run, work_of(run)


def traced_in_fork(forks: Forks, script: str | Path, *args: str) -> tuple[Run, Workload]:
    run = forks(script, *args, steps=8, warmup=3, profilers=("workload",))
    return run, work_of(run)


def work_of(run: Run) -> Workload:
    assert run.status is Status.COMPLETE, run.output
    assert not run.notes
    assert run.workload is not None
    return decode(run.workload.encode(), Workload).validated()


def test_a_plain_loop(forks: Forks) -> None:
    run, work = traced_in_fork(forks, "plain.py")
    assert len(run.step_s) == 8, "the traced step is not among the timed ones"
    assert {operator.stage for operator in work.operators} == {Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER}
    assert work.flop > 0
    assert work.parameter_bytes
    assert work.batch_bytes
    assert work.host_s is not None
    assert work.host_s > 1e-7
    # Collating a batch stacks its items: none of that would run on a GPU.
    assert not any(operator.name == "aten::stack" for operator in work.operators)


def test_a_step_of_a_gan_holds_both_updates_and_the_optimizers_state(forks: Forks) -> None:
    _, work = traced_in_fork(forks, "gan.py")
    products = [operator for operator in work.operators if operator.kind is Kind.MATMUL]
    # Two forward passes of the generator (4 x 8), three of the critic (8 x 1), with 16 rows each.
    forward = sum(one.flop * one.count for one in products if one.stage is Phase.FORWARD)
    assert forward == 2 * 16 * (2 * 4 * 8 + 3 * 8)
    # Adam keeps two numbers beside each parameter (and a step count).
    assert work.optimizer_state_bytes is not None and work.parameter_bytes is not None
    assert work.optimizer_state_bytes == pytest.approx(2 * work.parameter_bytes, rel=0.2)


def test_parameters_that_the_script_updates_by_hand(forks: Forks) -> None:
    _, work = traced_in_fork(forks, "by_hand.py")
    assert work.parameter_bytes == 10 * 4
    assert any(operator.stage is Phase.BACKWARD for operator in work.operators)


def test_accumulated_gradients_belong_to_one_step(forks: Forks) -> None:
    _, work = traced_in_fork(forks, "accumulation.py")
    backward = [one for one in work.operators if one.stage is Phase.BACKWARD and one.kind is Kind.MATMUL]
    assert sum(one.count for one in backward) >= 2


def test_a_script_that_executes_its_configuration(forks: Forks) -> None:
    _, work = traced_in_fork(forks, "configured.py")
    assert work.parameter_bytes == 5 * 4


def test_a_closure(forks: Forks) -> None:
    _, work = traced_in_fork(forks, "lbfgs.py")
    assert work.num_kernels > 10


def test_a_module_that_a_command_of_the_shell_starts(launcher: Launcher) -> None:
    _, work = traced(launcher, "sh", "-c", f"cd . && {sys.executable} -m package.train --name value")
    assert work.flop > 0


def test_autocast_for_a_gpu_that_is_not_here_is_known(forks: Forks, tmp_path: Path) -> None:
    script = tmp_path / "amp.py"
    script.write_text(AMP)
    for enabled, known in (("True", Precision.BF16), ("False", None)):
        _, work = traced_in_fork(forks, script, enabled)
        assert (work.precision, work.autocast) == (Precision.FP32, known)


def test_a_compiled_model_is_traced_as_it_was_written(forks: Forks) -> None:
    run, work = traced_in_fork(forks, "compiled.py")
    assert run.compiled
    products = [one for one in work.operators if one.kind is Kind.MATMUL]
    # Forward: both layers; backward: two gradients of each but the input's.
    assert sum(one.flop * one.count for one in products) == 2 * 8 * (2 * 16 * 32 + 3 * 32 * 4)


def test_several_processes_of_torchrun(launcher: Launcher) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "two_processes.py")
    run, work = traced(launcher, *torchrun)
    assert run.world_size == 2
    assert work.parameter_bytes == (32 * 8 + 8) * 4
    assert not any("allreduce" in operator.name for operator in work.operators)


@pytest.mark.parametrize("steps", [8, 9])
def test_a_validation_is_no_part_of_a_step_and_a_teacher_is(forks: Forks, tmp_path: Path, steps: int) -> None:
    script = tmp_path / "validates.py"
    script.write_text(VALIDATES)
    work = work_of(forks(script, steps=steps, warmup=3, profilers=("workload",)))
    # Of the teacher and the net, and the gradient of the net's weight; what is multiplied has no gradient.
    assert sum(one.count for one in work.operators if one.kind is Kind.MATMUL) == 3


THINKS = """
import time
import torch
from torch import nn

net, batch = nn.Linear(16, 16), torch.randn(4, 16)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(20):
    time.sleep(0.1)
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()
"""


def test_the_scripts_own_python_is_a_part_of_the_step_that_no_device_shortens(forks: Forks, tmp_path: Path) -> None:
    script = tmp_path / "thinks.py"
    script.write_text(THINKS)
    work = work_of(forks(script, steps=8, warmup=3, profilers=("workload",)))
    assert work.python_s > 0.05  # of 0.1: what calls of operators cost is taken off, more on a busy machine
