"""The sweep over numbers of threads: what is asked of the launcher, and what is made of its answer."""

import random
from dataclasses import replace

import pytest

from hotlap.experiment.sweep import thread_sweep
from hotlap.launch import ReplayedLauncher
from hotlap.levers.threads import Threads
from hotlap.record import Cores, Plan, Run, Status

EIGHT = Cores(logical=8, allowed=8, physical=8, fast=8)
PLAN = Plan(command=("python", "train.py"), cwd=".", out="", steps=1000, evidence=True, whole_epoch=True)


def law_s(count: int) -> float:
    """A step that is serial for 2 ms, and parallel for 16 ms on one thread."""
    return 0.002 + 0.016 / count


def trained(plan: Plan, *, drift: float = 0.0, noise: float = 0.01, device: str = "cpu") -> Run:
    """A process whose step follows `law_s`, in serpentine order; `drift`: how much slower the last block is."""
    generator = random.Random(3)
    counts = [int(str(arm[0]["count"])) for arm in plan.arms]
    order = list(range(len(counts)))
    num_rounds = plan.steps // plan.block
    step_s, arms, blocks = [], [], []
    for block in range(num_rounds * len(counts)):
        round_, place = divmod(block, len(counts))
        arm = (order if round_ % 2 == 0 else order[::-1])[place]
        for k in range(plan.block):
            slow = (1 + drift * block / (num_rounds * len(counts))) * (1 + generator.gauss(0, noise))
            # The first step of a block contains the switch.
            step_s.append((5.0 if k == 0 else 1.0) * slow * law_s(counts[arm]))
            arms.append(arm)
            blocks.append(block)
    return Run(
        status=Status.COMPLETE,
        device=device,
        arms=plan.arms,
        arm=tuple(arms),
        block=tuple(blocks),
        step_s=tuple(step_s),
    )


def test_each_number_of_threads_is_an_arm_of_one_short_run() -> None:
    launcher = ReplayedLauncher(trained)
    thread_sweep(launcher, PLAN, (1, 2, 8), cores=EIGHT)
    (plan,) = launcher.plans
    assert [arm[0]["count"] for arm in plan.arms] == [1, 2, 8]
    assert {arm[0]["name"] for arm in plan.arms} == {"threads"}
    assert plan.steps == 8 * plan.block
    assert not plan.evidence and not plan.whole_epoch


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_the_law_comes_out_even_when_the_machine_gets_slower(drift: float) -> None:
    launcher = ReplayedLauncher(lambda plan: trained(plan, drift=drift))
    sweep = thread_sweep(launcher, PLAN, cores=EIGHT, default_threads=8)
    assert [one.threads for one in sweep.times] == [1, 2, 3, 4, 6, 8]
    first = sweep.times[0].step_s.mid
    for one in sweep.times:
        assert first / one.step_s.mid == pytest.approx(law_s(1) / law_s(one.threads), rel=0.03)
    assert sweep.best_threads == 8
    assert sweep.default_threads == 8


def test_a_lever_that_could_not_be_installed_gives_no_time() -> None:
    failed = f"{Threads(count=8).title()}: RuntimeError: no"
    launcher = ReplayedLauncher(lambda plan: replace(trained(plan), not_installed=(failed,)))
    sweep = thread_sweep(launcher, PLAN, (1, 2, 8), cores=EIGHT)
    assert [one.threads for one in sweep.times] == [1, 2]
    assert failed in sweep.notes


@pytest.mark.parametrize("status", [Status.CRASHED, Status.HUNG])
def test_a_run_that_failed_is_told_and_no_number_is_best(status: Status) -> None:
    launcher = ReplayedLauncher(lambda plan: Run(status=status, error="It ended.", arms=plan.arms))
    sweep = thread_sweep(launcher, PLAN, (1, 2), cores=EIGHT)
    assert sweep.best_threads is None and sweep.times == ()
    assert any("It ended." in note for note in sweep.notes)


def test_on_a_gpu_threads_are_not_judged() -> None:
    launcher = ReplayedLauncher(lambda plan: trained(plan, device="NVIDIA H200"))
    sweep = thread_sweep(launcher, PLAN, (1, 2), cores=EIGHT)
    assert sweep.times == ()
    assert any("GPU" in note for note in sweep.notes)
