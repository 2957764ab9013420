"""On several nodes trial groups run at the same time, and come to what they come to on one."""

import pytest

from hotlap.experiment import Arm, Comparison, Design, Effect, compare
from hotlap.experiment.statistics import Progress
from hotlap.record import LeverSpec
from tests.unit.experiment.test_executor import executor_in, world

FUSED: LeverSpec = {"name": "fused-optimizer"}


@pytest.mark.parametrize("cost", [0.5, 1.0])
def test_trial_groups_of_one_comparison_are_placed_at_once(cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for nodes in (1, 4):
        here = world(costs={"fused-optimizer": cost})
        monkeypatch.setattr(type(here), "nodes", nodes)
        effect = Effect(Arm(levers=(FUSED,)))
        compare(executor_in(here), Comparison(effects=[effect], design=Design()))
        assert len(effect.log_ratios) == len({run.order_seed for _, run in effect.runs}), (
            "each trial group has an order of its own"
        )
        found[nodes] = effect.progress is Progress.GAIN, here.clock / len(effect.log_ratios)
    assert found[1][0] == found[4][0] == (cost < 1)
    assert found[4][1] < found[1][1] / 2
