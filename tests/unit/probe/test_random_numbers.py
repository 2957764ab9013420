"""Random numbers are counted by their distribution, and whatever looks for torch's functions finds them."""

import pickle
import random
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx, nn

from hotlap.levers import Patch
from hotlap.probe import seeds, unseen
from hotlap.probe.clock import Clock
from hotlap.probe.guard import Guard
from hotlap.probe.random_numbers import RandomNumbers
from hotlap.probe.thread import TrainingThread
from hotlap.record.run import GENERATORS


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> Iterator[RandomNumbers]:
    monkeypatch.setattr(unseen, "compiles", True)  # as once a script has asked for something compiled
    found, patch = RandomNumbers(), Patch()
    guard = Guard()
    seeds.shift(0, patch)
    found.install(patch, TrainingThread(Clock(perf_counter)), guard)
    yield found
    patch.undo()
    assert not guard.notes


def test_they_are_counted_by_their_distribution_whoever_draws_them(numbers: RandomNumbers) -> None:
    torch.randn(3, 4), torch.rand_like(torch.ones(2)), torch.empty(5).normal_(), torch.randperm(100)
    torch.multinomial(torch.ones(4), 3), torch.ones(6).bernoulli(), torch.randint(3, ())
    assert numbers.take() == {"normal": 17, "uniform": 2, "integers": 4, "coins": 6, "orders": 1}
    random.uniform(0, 1), np.random.rand(7), np.random.normal(), random.randint(0, 3)
    assert numbers.take() == {"uniform": 8, "normal": 1, "integers": 1}
    np.random.beta(0.4, 0.4), torch.poisson(torch.ones(3)), torch.empty(2).exponential_()
    assert numbers.take() == {"others": 6}
    np.random.RandomState(0).choice(10, (2, 3)), random.Random(0).random(), np.random.default_rng(0).normal(size=9)
    assert numbers.take() == {GENERATORS: 3}
    assert numbers.take() == {}


class Noisy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


@pytest.mark.filterwarnings("ignore:.torch.jit.[a-z_]*. is deprecated")
def test_scripts_traces_graphs_and_devices_work_as_without(numbers: RandomNumbers) -> None:
    scripted: Any = torch.jit.script(Noisy())
    assert scripted(torch.ones(2)).shape == (2,)
    assert "aten::numel" not in str(torch.jit.trace(Noisy(), torch.ones(2), check_trace=False).graph)  # type: ignore[no-untyped-call]
    assert "torch.rand_like" in fx.symbolic_trace(Noisy()).code
    torch.set_default_device("meta")
    try:
        assert torch.rand(3).is_meta
    finally:
        torch.set_default_device(None)
    compiled: Any = torch.compile(Noisy(), backend="aot_eager", fullgraph=True)
    assert compiled(torch.ones(3)).shape == (3,)
    varied: Any = torch.func.vmap(Noisy(), randomness="different")
    assert varied(torch.ones(4, 2)).shape == (4, 2)


def test_they_are_pickled_by_their_names(numbers: RandomNumbers) -> None:
    """Workers that are spawned are given what draws, and a model that holds it may be saved."""
    for function in (torch.rand, torch.Tensor.normal_, np.random.normal, random.uniform, random.random):
        assert pickle.loads(pickle.dumps(function)) is function
