"""Batches that are longer than their longest item, and what only looks like them."""

import time
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import nn

from hotlap.levers.lever import Patch
from hotlap.probe.clock import BACKWARD
from hotlap.probe.profilers.indices import Indices
from hotlap.probe.session import Session
from hotlap.record import Phase, Sighting, SightingKind
from tests.unit.probe.profilers.stage import Stage, play


def seen_of(batch: Callable[[int], Any], *, num_steps: int = Indices.num_steps) -> tuple[Sighting, ...]:
    """Of forward passes on `batch(step)`."""
    stage, step = Stage(), iter(range(num_steps))

    def forward() -> None:
        made, model = batch(next(step)), torch.nn.Identity()
        for told in list(stage.script.on_forward):
            told(model, (made,) if isinstance(made, torch.Tensor) else made, {}, None)

    found: tuple[Sighting, ...] = play(Indices(), forward, stage=stage, num_steps=num_steps)["sightings"]
    return tuple(one for one in found if one.kind is SightingKind.PADDING)


def sentences(step: int, *, pad: int = 0, length: int = 60, longest: int = 20) -> torch.Tensor:
    """(8, 60) numbers from 1 on, behind 5 to 20 of them only padding."""
    draw = torch.Generator().manual_seed(step)
    words = torch.randint(1, 500, (8, length), generator=draw)
    lengths = torch.randint(5, longest + 1, (8, 1), generator=draw)
    lengths[step % 8] = longest
    return words.masked_fill(torch.arange(length) >= lengths, pad)


@pytest.mark.parametrize("pad", [0, -100, 499])
def test_columns_behind_the_longest_item_of_each_batch_are_counted(pad: int) -> None:
    (found,) = seen_of(lambda step: sentences(step, pad=pad))
    assert found.detail["share"] == pytest.approx(40 / 60, abs=0.02)
    assert (found.detail["shape"], found.detail["length"], found.detail["batches"]) == ("(8, 60)", 60, 12)
    assert found.what == "Identity" and found.per_step == 1


def test_the_batch_may_be_the_second_dimension_and_words_may_have_several_numbers() -> None:
    (found,) = seen_of(lambda step: sentences(step).T)
    assert found.detail["share"] == pytest.approx(40 / 60) and found.detail["shape"] == "(60, 8)"
    (found,) = seen_of(lambda step: sentences(step)[..., None].expand(-1, -1, 3))
    assert found.detail["share"] == pytest.approx(40 / 60)


def test_a_mask_tells_it_where_the_model_is_given_fractions() -> None:
    (found,) = seen_of(lambda step: (torch.randn(8, 60, 3), sentences(step) == 0))
    assert found.detail["share"] == pytest.approx(40 / 60)


def test_only_what_all_sequences_of_that_length_spare_is_counted() -> None:
    positions = torch.arange(60).expand(8, -1)
    (found,) = seen_of(lambda step: (sentences(step), sentences(step, longest=45), positions))
    assert found.detail["share"] == pytest.approx(15 / 60)


def test_batches_with_an_item_of_full_length_spare_nothing_in_their_steps() -> None:
    (found,) = seen_of(lambda step: sentences(step, longest=60 if step % 2 else 20))
    assert found.detail["share"] == pytest.approx(20 / 60)


def digits(step: int) -> torch.Tensor:
    images = torch.zeros(8, 28, 28)
    images[:, 5:22, 6:22] = (torch.rand(8, 17, 16) - 0.4).clamp(min=0)
    return images


@pytest.mark.parametrize(
    "batch",
    [
        lambda step: sentences(step, longest=60),
        lambda step: torch.randint(0, 500, (8, 60)),
        lambda step: sentences(step).float(),
        lambda step: sentences(step)[:, :20],
        digits,
        lambda step: (digits(step) * 255).long(),
        lambda step: (digits(step) * 255).long().flatten(1),
        lambda step: torch.nn.functional.one_hot(torch.randint(0, 9, (8,)), 30),
        lambda step: torch.nn.functional.one_hot(torch.randint(0, 9, (8, 20)), 30),
        lambda step: torch.poisson(torch.cat([torch.ones(8, 9), torch.full((8, 30), 1e-6)], 1)).long(),
        lambda step: torch.cat([torch.randint(1, 9, (8, 9)), torch.zeros(8, 3, dtype=torch.int64)], 1),
        lambda step: torch.arange(60).expand(8, -1),
        lambda step: torch.zeros(8, 60, dtype=torch.int64),
        lambda step: torch.zeros(0, 60, dtype=torch.int64),
        lambda step: torch.randint(0, 500, (8,)),
    ],
)
def test_what_ends_alike_for_another_reason_is_no_padding(batch: Callable[[int], Any]) -> None:
    assert seen_of(batch) == ()


def test_one_step_shows_that_nothing_is_padded() -> None:
    stage, profiler = Stage(), Indices()
    steps: list[int] = []
    play(profiler, lambda: steps.append(len(stage.script.on_forward)), stage=stage)
    assert steps == [1] and stage.script.on_forward == []


class Facts:
    """All of a model is trained."""

    compiled = False

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def parameters(self) -> list[torch.Tensor]:
        return [one for one in self.model.parameters() if one.requires_grad]


def tables_of(model: nn.Module, *, passes: int = 1, num_steps: int = 4) -> tuple[Sighting, ...]:
    """Of steps with so many backward passes, in each of which rows 3, 3, 5 and 9 are looked up."""
    stage: Any = Stage()
    stage.facts = Facts(model)
    rows = torch.tensor([[3, 3], [5, 9]])

    def step() -> None:
        for _ in range(passes):
            made = model(rows)
            for told in list(stage.script.on_forward):
                told(model, (rows,), {}, made)
            stage.clock.now, begun = Phase.BACKWARD, time.perf_counter()
            made.square().mean().backward()
            stage.clock.now = Phase.OTHER
            stage.clock.last_spent = [0.0] * len(Phase)
            stage.clock.last_spent[BACKWARD] = time.perf_counter() - begun

    found: tuple[Sighting, ...] = play(Indices(), step, stage=stage, num_steps=num_steps)["sightings"]
    assert not any(one._backward_hooks for one in model.parameters())
    return found


@pytest.mark.parametrize("table", [nn.Embedding(50, 4), nn.EmbeddingBag(50, 4)])
def test_rows_with_a_gradient_are_counted_of_each_table(table: nn.Module) -> None:
    (found,) = tables_of(nn.Sequential(table, nn.Linear(4, 1)))
    assert (found.kind, found.what) == (SightingKind.DENSE_GRADIENT, type(table).__name__)
    assert dict(found.detail) == {"module": "0", "rows": 50, "touched": 3, "elements": 200}
    assert found.cost_s == 0, "a small one takes no longer than a call"


def test_rows_of_all_backward_passes_of_a_step_count() -> None:
    (found,) = tables_of(nn.Sequential(nn.Embedding(50, 4), nn.Linear(4, 1)), passes=2)
    assert found.detail["touched"] == 6 and found.per_step == 2


def test_a_table_whose_weight_makes_the_output_as_well_is_touched_as_a_whole() -> None:
    model = nn.Sequential(nn.Embedding(50, 4), nn.Linear(4, 50))
    model[1].weight = model[0].weight
    (found,) = tables_of(model)
    assert found.detail["touched"] == 50


@pytest.mark.parametrize(
    "table",
    [
        nn.Embedding(50, 4, sparse=True),
        nn.Embedding(50, 4, scale_grad_by_freq=True),
        nn.EmbeddingBag(50, 4, mode="max"),
        nn.Embedding(50, 4).requires_grad_(False),
    ],
)
def test_tables_without_a_dense_gradient_or_a_way_to_a_sparse_one_are_left_out(table: nn.Module) -> None:
    assert tables_of(nn.Sequential(table, nn.Linear(4, 1))) == ()


class Twice(nn.Module):
    """Looks up of one table twice."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8000, 64)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.mul(self.table(rows), self.table(rows + 1))


def test_a_gradient_takes_what_all_that_make_it_take() -> None:
    (found,) = tables_of(Twice())
    assert found.cost_s is not None and found.cost_s > 0
    profiler, stage = Indices(), Stage()
    stage.clock.now = Phase.BACKWARD
    profiler.install(cast(Session, stage), Patch())
    table = torch.empty(1 << 18, 2)
    for result in (table, torch.empty(4, 4), table.long(), table):
        profiler._see(torch.ops.aten.add.Tensor, (), {}, result, 0.25)
    assert profiler._made_s == {table.shape: 0.5}, "filled, and added up; not what is small, or positions"
