"""The sweep over numbers of threads: what is asked of the launcher, and what is made of its answer."""

import random
from dataclasses import replace

import pytest

from hotlap.experiment import Executor, Sizes
from hotlap.experiment.sweep import BLOCKS, thread_sweep
from hotlap.levers.threads import Threads
from hotlap.record import Plan, Run, Status, Sweep
from tests.replayed_launcher import ReplayedLauncher
from tests.unit.tune.world import MACHINE, AnyScript

EIGHT = replace(MACHINE, num_cores=8, usable_cores=8.0, physical_cores=8)
COUNTS = (1, 2, 3, 4, 6, 8)
SIZES = Sizes(
    step_s=0.003, setup_s=4.0, block=11, steps=BLOCKS * 11, warmup=20, evidence_steps=200, together=2, cores=8.0
)


def swept(launcher: ReplayedLauncher, counts: tuple[int, ...] = COUNTS) -> Sweep:
    executor = Executor(launcher, Plan(command=("python", "train.py"), cwd=".", out=""), SIZES, script=AnyScript())
    return thread_sweep(executor, counts, EIGHT, Run(status=Status.COMPLETE, device="cpu", num_threads=8))


def law_s(count: int) -> float:
    """A step that is serial for 2 ms, and parallel for 16 ms on one thread."""
    return 0.002 + 0.016 / count


def trained(plan: Plan, *, drift: float = 0.0, noise: float = 0.01) -> Run:
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
        device="cpu",
        arms=plan.arms,
        arm=tuple(arms),
        block=tuple(blocks),
        step_s=tuple(step_s),
    )


def test_each_number_of_threads_is_an_arm_of_one_short_run() -> None:
    launcher = ReplayedLauncher(trained)
    swept(launcher, (1, 2, 8))
    (plan,) = launcher.plans
    assert [arm[0]["count"] for arm in plan.arms] == [1, 2, 8]
    assert {arm[0]["name"] for arm in plan.arms} == {"threads"}
    assert plan.steps == 9 * plan.block, "each arm stands at each place equally often"


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_the_law_comes_out_even_when_the_machine_gets_slower(drift: float) -> None:
    launcher = ReplayedLauncher(lambda plan: trained(plan, drift=drift))
    sweep = swept(launcher)
    assert [one.threads for one in sweep.times] == [1, 2, 3, 4, 6, 8]
    first = sweep.times[0].step_s.mid
    for one in sweep.times:
        assert first / one.step_s.mid == pytest.approx(law_s(1) / law_s(one.threads), rel=0.03)
    assert sweep.why.startswith("8 threads are best")


def test_a_lever_that_could_not_be_installed_gives_no_time() -> None:
    failed = f"{Threads(count=8).title()}: RuntimeError: no"
    launcher = ReplayedLauncher(lambda plan: replace(trained(plan), not_installed=(failed,)))
    sweep = swept(launcher, (1, 2, 8))
    assert [one.threads for one in sweep.times] == [1, 2]
    assert failed in sweep.notes


@pytest.mark.parametrize("status", [Status.CRASHED, Status.HUNG])
def test_of_a_run_that_failed_no_number_is_best(status: Status) -> None:
    launcher = ReplayedLauncher(lambda plan: Run(status=status, error="It ended.", arms=plan.arms))
    sweep = swept(launcher, (1, 2))
    assert sweep.why == "" and sweep.times == ()
