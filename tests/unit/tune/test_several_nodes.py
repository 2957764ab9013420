"""A study over several nodes, by the clock of the simulated scheduler."""

from pathlib import Path

import pytest

from hotlap.record import Study, Verdict
from tests.unit.tune.test_tuner import accepted, script, tune, world_of
from tests.unit.tune.world import World

__all__ = ["script"]

COSTS = [
    {},
    {"cached-dataset": 0.4},
    {"cached-dataset": 0.4, "fused-optimizer": 0.9, "threads": 0.95},
    {"fused-optimizer": 0.93, "cached-dataset": 0.8},
]


def study_over(nodes: int, script: Path, costs: dict[str, float]) -> tuple[Study, World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "nodes", nodes)
        world = world_of(script, costs=costs, step_s=0.1)
        return tune(world, budget_s=7200.0), world


@pytest.mark.parametrize("costs", COSTS, ids=lambda costs: "+".join(costs) or "none")
def test_eight_nodes_come_to_the_same_as_one_and_sooner(script: Path, costs: dict[str, float]) -> None:
    (one, here), (eight, there) = study_over(1, script, costs), study_over(8, script, costs)
    assert sorted(map(str, accepted(one))) == sorted(map(str, accepted(eight))) == sorted(costs)
    # Stages wait for one another: 0.49 of it in the median, and 0.55 at most.
    assert there.clock < 0.6 * here.clock


def test_each_trial_group_has_an_order_of_its_own(script: Path) -> None:
    study, _ = study_over(8, script, COSTS[2])
    for trial in study.trials:
        assert len(trial.order_seeds) == len(set(trial.order_seeds))


def test_harm_is_refused_over_eight_nodes_as_on_one(script: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "nodes", 8)
        world = world_of(script, costs=COSTS[1], harms={"cached-dataset": 0.5}, step_s=0.1)
        study = tune(world, budget_s=7200.0)
    assert not accepted(study) and any(trial.verdict is Verdict.HARMED for trial in study.trials)
