"""A study over several nodes, by the clock of the simulated scheduler."""

from pathlib import Path

import pytest

from hotlap.record import Study, Verdict
from hotlap.search import Foresight
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
    # Stages that wait for one another took 0.49 of it in the median, and 0.55 at most.
    assert there.clock < 0.45 * here.clock


def test_each_trial_group_has_an_order_of_its_own(script: Path) -> None:
    study, _ = study_over(8, script, COSTS[2])
    for trial in study.trials:
        assert len(trial.order_seeds) == len(set(trial.order_seeds))


def test_one_node_begins_nothing_that_nobody_asked_for(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError("nothing is foreseen here")

    monkeypatch.setattr(Foresight, "__call__", fails)
    study, world = study_over(1, script, COSTS[1])
    timed = {seed for trial in study.trials for seed in trial.order_seeds}
    alone = [plan for plan in world.plans if len(plan.arms) > 1 or plan.afresh]
    assert accepted(study) and {plan.order_seed for plan in alone} <= timed


def test_what_is_foreseen_never_stands_in_the_study(script: Path) -> None:
    """Each ratio of a trial is of a trial group that was run."""
    study, world = study_over(8, script, COSTS[2])
    run = {plan.order_seed for plan in world.plans} - {0}
    assert all(set(trial.order_seeds) <= run for trial in study.trials)
    harmful, _ = study_over(8, script, COSTS[1] | {"huge-pages": 1.5, "threads": 1.2})
    assert accepted(harmful) == ["cached-dataset"]


def test_the_gate_is_not_taken_to_pass_because_it_was_expected_to(script: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "nodes", 8)
        world = world_of(script, costs=COSTS[1], harms={"cached-dataset": 0.5}, step_s=0.1)
        study = tune(world, budget_s=7200.0)
    assert not accepted(study) and any(trial.verdict is Verdict.HARMED for trial in study.trials)
