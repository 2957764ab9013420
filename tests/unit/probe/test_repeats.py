"""What is the same in each step is told with its line, and what only looks so is not."""

from collections.abc import Callable
from itertools import count

import pytest
import torch

from hotlap.probe.watches.calls import Calls
from hotlap.record import Phase, Sighting, SightingKind
from tests.unit.probe.watches.stage import Stage, play

# Far more than what a call as such takes.
TABLE = torch.ones(500, 500)
WEIGHT = torch.ones(500, 500, requires_grad=True)
STEP = count()


def seen(step: Callable[[], object], phase: Phase = Phase.FORWARD) -> list[Sighting]:
    stage = Stage()
    stage.clock.now = phase
    found = play(Calls(), step, stage=stage, num_steps=Calls.num_steps)
    return [one for one in found["sightings"] if one.kind is SightingKind.REPEATED]


def test_a_product_of_constants_is_told_with_its_line_and_what_it_takes() -> None:
    def step() -> None:
        torch.mm(TABLE, TABLE)  # here
        torch.mm(TABLE * next(STEP), TABLE)

    (one,) = seen(step)
    assert one.text == "torch.mm(TABLE, TABLE)  # here"
    assert (one.what, one.detail["phase"]) == ("aten::mm", "forward")
    assert one.cost_s is not None and one.cost_s > 0


def test_what_is_made_of_constants_only_is_constant_as_well_sparse_or_not() -> None:
    def step() -> None:
        total = torch.cat([TABLE, TABLE])
        (total @ TABLE).to_sparse().coalesce()

    assert {one.line for one in seen(step)} == {step.__code__.co_firstlineno + 1, step.__code__.co_firstlineno + 2}


def test_a_line_that_computes_something_else_as_well_is_known() -> None:
    def step() -> None:
        torch.mm(TABLE, TABLE).neg()
        torch.mm(torch.mm(TABLE, TABLE), WEIGHT)
        torch.mm(torch.mm(TABLE, TABLE), TABLE * next(STEP))

    alone = {one.line: one.detail["alone"] for one in seen(step)}
    assert [alone[step.__code__.co_firstlineno + line] for line in (1, 2, 3)] == [True, False, False]


def _noise() -> object:
    return torch.mm(torch.rand(500, 500), TABLE)


def _in_turns() -> object:
    """As two batches that come in the same order in each epoch."""
    return torch.mm(TABLE * (next(STEP) % 2), TABLE)


def _one_element() -> object:
    TABLE_OF_ALL[0, next(STEP) % 500] += 1
    return torch.mm(TABLE_OF_ALL, TABLE)


def _clipped() -> object:
    """The same is made of what is not the same."""
    return torch.clamp(TABLE * (1 + next(STEP)), max=1.0)


def _of_parameters() -> object:
    return torch.mm(WEIGHT, TABLE)


def _in_place() -> object:
    return TABLE_OF_ALL.mul_(1.0)


def _now_and_then() -> object:
    return torch.mm(TABLE, TABLE) if next(STEP) % 3 else None


TABLE_OF_ALL = TABLE.clone()


@pytest.mark.parametrize("step", [_noise, _in_turns, _one_element, _of_parameters, _in_place, _now_and_then])
def test_what_changes_is_none(step: Callable[[], object]) -> None:
    assert not [one for one in seen(step) if one.what == "aten::mm" or step is _in_place]


def test_what_makes_the_same_of_other_numbers_is_none() -> None:
    assert not [one for one in seen(_clipped) if one.what == "aten::clamp"]


@pytest.mark.parametrize("phase", [Phase.INPUT, Phase.BACKWARD, Phase.OPTIMIZER])
def test_nothing_is_looked_for_where_no_line_of_the_script_computes(phase: Phase) -> None:
    assert seen(lambda: torch.mm(TABLE, TABLE), phase) == []
