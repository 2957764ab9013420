"""Jobs that want one port: those of several processes may take each other down, and are then tried one by one."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hotlap.experiment import Executor, Group
from hotlap.record import Plan, Run, Status
from tests.replayed_launcher import ReplayedLauncher
from tests.sample_runs import run_with
from tests.unit.experiment.test_executor import SIZES
from tests.unit.tune.world import AnyScript

TAKEN = Run(status=Status.CRASHED, error="rank 0: DistNetworkError: address already in use")
OTHER = Run(status=Status.CRASHED, error="rank 1: RuntimeError: Connection closed by peer")


@pytest.mark.parametrize("several", [True, False])
def test_two_jobs_that_both_failed_over_one_port_are_started_one_after_the_other(several: bool) -> None:
    alone = ReplayedLauncher(lambda plan: run_with())

    def runs(plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        return [TAKEN, OTHER] if len(plans) > 1 else alone(plans, limit_s=limit_s)

    told: list[str] = []
    plan = Plan(command=("torchrun",), cwd="/", out="")
    sizes = replace(SIZES, num_ranks=1 + several)
    executor = Executor(runs, plan, sizes, script=AnyScript(), warn=told.append)
    (found,) = executor.together([Group([plan, plan], turn=11, limit_s=10.0)])
    assert [run.status for run in found] == [Status.COMPLETE if several else Status.CRASHED] * 2
    assert len(told) == several
    assert executor.sizes.together == (1 if several else SIZES.together), "estimates know it"
