"""The look at the input phase: its parts, and that it leaves data sets as they were."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from torch.utils.data import DataLoader, Dataset

from hotlap.data import cached_prefix
from hotlap.probe.clock import INPUT
from hotlap.probe.profilers.input import Input
from hotlap.probe.session import Session
from hotlap.record import InputPart, LoaderFacts
from tests.unit.data.pictures import usual
from tests.unit.probe.profilers.stage import Stage, play


@pytest.mark.parametrize("wrap", [lambda data: data, cached_prefix])
def test_a_data_set_behind_ours_gets_its_transform_back(wrap: Callable[[Any], Any]) -> None:
    data = usual()
    transform = data.transform
    loader = DataLoader(wrap(data), 4)
    profiler, stage = Input(), Stage()
    vars(stage.clock)["entered"] = {INPUT}
    profiler.session = cast(Session, stage)
    assert profiler.goes_on()
    try:
        next(iter(loader))
        assert data.transform is not transform, "it is timed"
    finally:
        profiler.close()
    assert vars(data)["transform"] is transform


@pytest.mark.parametrize("workers", [0, 2])
def test_what_is_left_beside_starts_is_waiting_for_workers_where_there_are_any(workers: int) -> None:
    stage, profiler = Stage(), Input()
    vars(stage)["num_recorded"] = 8
    vars(stage.clock)["entered"] = {INPUT}
    stage.ledger.start_s = lambda: 0.25
    facts = LoaderFacts(
        id=0, dataset="Items", num_items=9, num_workers=workers, batch_size=1, default_collate=True,
        pin_memory=False, trained_on=True)  # fmt: skip
    vars(stage.facts)["loader_facts"] = lambda *, sample: [facts]
    profiler.session = cast(Session, stage)
    waits = {InputPart.WORKERS: 0.75} if workers else {}
    assert profiler.fields() == {"input_s": {InputPart.START: 0.25, **waits}}


def test_the_items_of_a_validation_are_no_part_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr("hotlap.probe.profilers.input.time", SimpleNamespace(perf_counter=lambda: seconds[0]))

    class Items(Dataset[int]):
        def __init__(self, item_s: float) -> None:
            self.item_s = item_s

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            seconds[0] += self.item_s
            return index

    def collated(items: list[int]) -> list[int]:
        seconds[0] += 3.0
        return items

    stage, made = Stage(), list[None]()
    vars(stage)["num_recorded"] = 8
    vars(stage.clock)["entered"] = {INPUT}

    def step() -> None:
        made.append(None)
        validates = len(made) == 3
        if validates:
            list(DataLoader(Items(100.0)))
        list(DataLoader(Items(1.0), collate_fn=collated))
        stage.validated((0.0, 1.0) if validates else None)

    parts = play(Input(), step, stage=stage, num_steps=8)["input_s"]
    assert (parts[InputPart.ITEMS], parts[InputPart.COLLATE]) == (0.25, 0.75)


def test_a_transform_counts_once_however_many_epochs_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]
    monkeypatch.setattr("hotlap.probe.profilers.input.time", SimpleNamespace(perf_counter=lambda: seconds[0]))

    class Transformed(Dataset[int]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> int:
            seconds[0] += 1.0
            return self.transform(index)

        def transform(self, item: int) -> int:
            seconds[0] += 3.0
            return item

    stage, data = Stage(), Transformed()
    vars(stage)["num_recorded"] = 8
    vars(stage.clock)["entered"] = {INPUT}
    parts = play(Input(), lambda: list(DataLoader(data)), stage=stage, num_steps=8)["input_s"]
    assert (parts[InputPart.ITEMS], parts[InputPart.TRANSFORMS]) == (0.25, 0.75)
