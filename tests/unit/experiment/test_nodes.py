"""On several nodes trial groups run at the same time, and come to what they come to on one."""

from collections.abc import Callable, Sequence

import pytest

from hotlap.experiment import Arm, Comparison, Design, Effect, Executor, Group, compare
from hotlap.experiment.statistics import Progress
from hotlap.record import LeverSpec
from tests.unit.experiment.test_executor import executor_in, world
from tests.unit.tune.world import Made, World

FUSED: LeverSpec = {"name": "fused-optimizer"}


@pytest.mark.parametrize("cost", [0.5, 1.0])
def test_trial_groups_of_one_comparison_are_placed_at_once(cost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {}
    for nodes in (1, 4):
        here = world(costs={"fused-optimizer": cost})
        monkeypatch.setattr(type(here), "nodes", nodes)
        effect = Effect(Arm(levers=(FUSED,)))
        compare(executor_in(here), Comparison(effects=[effect], design=Design()))
        assert len(effect.log_ratios) == len(set(effect.order_seeds)), "each trial group has an order of its own"
        found[nodes] = effect.progress is Progress.GAIN, here.clock / len(effect.log_ratios)
    assert found[1][0] == found[4][0] == (cost < 1)
    assert found[4][1] < found[1][1] / 2


OTHER: LeverSpec = {"name": "threads", "count": 1}


def expecting(*designs: Design) -> Callable[[Executor, Sequence[Group]], list[Group]]:
    return lambda executor, asked: [executor.group(design, order_seed=0) for design in designs]


def over_nodes(number: int, monkeypatch: pytest.MonkeyPatch, **settings: object) -> tuple[World, Executor, list[Made]]:
    """And what was dropped."""
    here, dropped = world(**settings), list[Made]()
    monkeypatch.setattr(World, "nodes", number)
    monkeypatch.setattr(World, "drop", lambda self, job: dropped.append(job))
    return here, executor_in(here), dropped


def test_what_is_likely_to_come_is_begun_on_nodes_that_idle_and_taken_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, executor, dropped = over_nodes(3, monkeypatch)
    now, then, never = (Design(arms=(Arm(), Arm(levers=(one,)))) for one in (FUSED, OTHER, {"name": "huge-pages"}))
    executor.likely = expecting(then, then, never)
    executor.trial_group(now)
    assert len(here.plans) == 6, "three trial groups of two: of the three that are likely the first two have a node"
    clock, executor.likely = here.clock, expecting()
    assert executor.num_ahead(then) == 2 and not executor.num_ahead(now)
    (first, second) = executor.trial_groups([then, then])
    assert here.clock - clock < 1.0 and executor.foreseen, "they were run beside the first"
    assert first.runs[0].order_seed != second.runs[0].order_seed and not dropped
    executor.trial_group(then)
    assert here.clock - clock > 5.0 and not executor.foreseen


def test_what_is_not_likely_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    _, executor, dropped = over_nodes(3, monkeypatch)
    now, then = (Design(arms=(Arm(), Arm(levers=(one,)))) for one in (FUSED, OTHER))
    executor.likely = expecting(then)
    executor.trial_group(now)
    executor.likely = expecting()
    executor.trial_group(now)
    assert len(dropped) == 1 and not executor.num_ahead(then)


def test_what_is_asked_for_needs_no_node_of_what_is_only_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    _, executor, dropped = over_nodes(3, monkeypatch)
    now, then = Design(arms=(Arm(), Arm(levers=(FUSED,))), switched=True), Design(arms=(Arm(),) * 4)
    executor.likely = expecting(then, then)
    executor.trial_group(now)
    executor.trial_groups([now, now])
    assert len(dropped) == 1 and executor.num_ahead(then) == 1, "which takes longer, and goes on where a node is left"


def test_a_comparison_looks_at_what_was_begun_ahead_first(monkeypatch: pytest.MonkeyPatch) -> None:
    here, executor, _ = over_nodes(3, monkeypatch, costs={"threads": 0.5})
    effect = Effect(Arm(levers=(OTHER,)), (1e-4, 3))
    design = Design(arms=(Arm(), effect.arm))
    executor.likely = expecting(design, design)
    executor.trial_group(Design())
    executor.likely = expecting()
    clock = here.clock
    compare(executor, Comparison(effects=[effect], design=Design()))
    assert effect.progress is Progress.GAIN and len(effect.log_ratios) == 2
    assert here.clock - clock < 10.0, "no third trial group was begun"
