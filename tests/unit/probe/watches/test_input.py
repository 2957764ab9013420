"""The look at the input phase: its parts, and that it leaves data sets as they were."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.data import cached_prefix, late
from hotlap.levers.lever import Patch
from hotlap.probe.clock import INPUT
from hotlap.probe.session import Session
from hotlap.probe.watches.input import Input
from hotlap.record import InputPart
from tests.unit.data.pictures import usual
from tests.unit.probe.watches.stage import Stage


@pytest.mark.parametrize("wrap", [lambda data: data, late, cached_prefix])
def test_a_data_set_behind_ours_gets_its_transform_back(wrap: Callable[[Any], Any]) -> None:
    data = usual()
    transform = data.transform
    watch = Input()
    watch.open()
    try:
        next(iter(DataLoader(wrap(data), 4)))
        assert data.transform is not transform, "it is timed"
    finally:
        watch.close(1)
    assert vars(data)["transform"] is transform


def test_starts_of_iterators_are_shared_out_over_all_recorded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = map(float, itertools.count())
    monkeypatch.setattr("hotlap.probe.watches.input.time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    stage, patch, watch = Stage(), Patch(), Input()
    vars(stage)["schedule"] = SimpleNamespace(move=SimpleNamespace(recorded=True))
    vars(stage)["num_recorded"] = 8  # of a long run not all are in the columns
    vars(stage.clock)["entered"] = {INPUT}
    watch.install(cast(Session, stage), patch)
    try:
        for _ in range(2):
            iter(DataLoader(TensorDataset(torch.zeros(2))))  # each takes a second
    finally:
        patch.undo()
    assert watch.fields() == {"input_s": {InputPart.START: 0.25}}
