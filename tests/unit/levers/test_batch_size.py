"""batch-size: what loaders and learning rates come to, and that all of it is put back."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from hotlap import levers
from hotlap.errors import UserError
from hotlap.levers import BatchSize
from hotlap.levers.batch_size import rate_factor
from hotlap.levers.lever import Patch

DATA = TensorDataset(torch.arange(64.0).unsqueeze(1))


@pytest.fixture
def four_times() -> Iterator[Patch]:
    """Batches of 4 become batches of 16."""
    patch = Patch()
    BatchSize(before=4, size=16).install(patch)
    yield patch
    patch.undo()


def sizes(loader: "DataLoader[Any]") -> set[int]:
    return {len(batch[0]) for batch in loader}


def test_loaders_of_that_size_get_the_other_one(four_times: Patch) -> None:
    assert sizes(DataLoader(DATA, batch_size=4)) == {16}
    assert sizes(DataLoader(DATA, 4, True)) == {16}
    assert sizes(DataLoader(DATA, batch_size=8)) == {8}
    sampler = BatchSampler(SequentialSampler(DATA), 4, drop_last=False)
    assert sizes(DataLoader(DATA, batch_sampler=sampler)) == {4}
    with pytest.raises(TypeError, match="nonsense"):
        DataLoader(DATA, nonsense=1)  # type: ignore[call-arg]


def sgd(rate: float = 0.5) -> torch.optim.Optimizer:
    weight = torch.ones(1, requires_grad=True)
    weight.grad = torch.ones(1)
    return torch.optim.SGD([weight], lr=rate)


def moved(optimizer: torch.optim.Optimizer) -> float:
    """How far one update moves the weight."""
    weight = optimizer.param_groups[0]["params"][0]
    before = weight.item()
    optimizer.step()
    return float(before - weight.item())


def test_sgd_moves_in_proportion_and_the_script_reads_its_own_rate(four_times: Patch) -> None:
    optimizer = sgd()
    assert moved(optimizer) == pytest.approx(4 * 0.5)
    assert optimizer.param_groups[0]["lr"] == 0.5
    optimizer.param_groups[0]["lr"] = 0.125  # a schedule that the script makes by hand
    assert moved(optimizer) == pytest.approx(4 * 0.125)


def test_adam_moves_by_the_square_root(four_times: Patch) -> None:
    weight = torch.ones(1, requires_grad=True)
    weight.grad = torch.ones(1)
    assert moved(torch.optim.Adam([weight], lr=0.01)) == pytest.approx(2 * 0.01, rel=1e-4)


def test_everything_is_put_back() -> None:
    before = DataLoader.__init__
    patch = Patch()
    BatchSize(before=4, size=16).install(patch)
    patch.undo()
    assert DataLoader.__init__ == before
    assert moved(sgd()) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("torch.optim.SGD", 4.0),
        ("SGD", 4.0),
        ("torch.optim.AdamW", 2.0),
        ("mine.Lion", 2.0),
    ],
)
def test_the_rate_grows_with_the_batch_or_its_square_root(name: str, expected: float) -> None:
    assert rate_factor(name, 4.0) == expected


def test_it_is_known_by_name_and_tried_on_request_only() -> None:
    spec = BatchSize(before=4, size=16).spec()
    assert levers.from_spec(spec) == BatchSize(before=4, size=16)
    assert levers.BatchSize not in levers.ALL
    with pytest.raises(UserError):
        levers.from_spec({"name": "batch-size", "size": "many"})
