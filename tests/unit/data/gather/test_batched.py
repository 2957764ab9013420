"""batched(): the same batches of data that lies in memory, by one gather."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from hotlap.data import batched
from hotlap.data.gather.batched import BatchedDataset
from hotlap.errors import UserError
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs, equal, seed, states


def rows(num_items: int = 50, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(num_items * max(1, int(np.prod(shape)))) * 7 % 251).to(dtype).view(num_items, *shape)


def table() -> TensorDataset:
    return TensorDataset(rows(50, 3), rows(50, dtype=torch.int64))


DATA: dict[str, Callable[[], Any]] = {
    "tensors": table,
    "one tensor": lambda: TensorDataset(rows(50, 2, 3, dtype=torch.bfloat16)),
    "scalars": lambda: TensorDataset(rows(50, dtype=torch.bool), rows(50, dtype=torch.complex64)),
    "transposed": lambda: TensorDataset(rows(3, 50).T, rows(50, 4, 5, 3).permute(0, 3, 1, 2)),
    "expanded": lambda: TensorDataset(rows(1, 4).expand(50, 4)),
    "subset": lambda: Subset(table(), [5, 3, 3, 40, *range(20)]),
    "subset from the end": lambda: Subset(table(), [-1, 3, -50, *range(20)]),
    "range": lambda: Subset(table(), range(40, 3, -2)),
    "subset of a subset": lambda: Subset(Subset(table(), range(2, 50)), list(range(0, 48, 3))),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize(
    "settings", [{}, {"shuffle": False}, {"drop_last": True, "batch_size": 7}, {"collate_fn": list}]
)
def test_gives_the_same_batches_and_streams(name: str, settings: dict[str, Any]) -> None:
    assert_same_epochs(epochs(batched(DATA[name]()), **settings), epochs(DATA[name](), **settings))


@pytest.mark.parametrize("name", [name for name in DATA if name != "subset from the end"])
def test_a_batch_is_one_gather_and_no_item_is_looked_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = batched(DATA[name]())
    seen = epochs(data, num_epochs=1)

    def fails(*_: Any) -> Any:
        raise AssertionError("an item was looked up")

    monkeypatch.setattr("hotlap.data.gather.batched.fetch", fails)
    assert_same_epochs(epochs(data, num_epochs=1), seen)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_gives_the_same_batches_in_workers() -> None:
    settings: dict[str, Any] = {"num_workers": 2, "num_epochs": 2}
    assert_same_epochs(epochs(batched(table()), **settings), epochs(table(), **settings))


def test_what_the_script_changes_is_in_the_next_batch() -> None:
    def loop(data: Any, raw: Any) -> list[Any]:
        seed()
        seen = []
        for number, batch in enumerate(DataLoader(data, 8, shuffle=True)):
            seen.append((batch, states()))
            raw.tensors[0][number] += 100.0
            if number == 3:
                raw.tensors = (raw.tensors[0] * 2, raw.tensors[1])
        return seen

    ours, plain = table(), table()
    assert_same_epochs(loop(batched(ours), ours), loop(plain, plain))


def test_a_batch_changed_in_place_does_not_reach_the_data() -> None:
    data = table()
    for batch in DataLoader(batched(data), 8):
        batch[0].zero_()
    assert equal(data.tensors[0], rows(50, 3))


def test_tensors_that_carry_a_gradient_are_left_to_torch() -> None:
    def make() -> TensorDataset:
        return TensorDataset(rows(50, 3), rows(50))

    data = make()
    ours = batched(data)
    epochs(ours, num_epochs=1)
    data.tensors[0].requires_grad_(True)
    assert all(batch[0].requires_grad for batch, _ in epochs(ours, num_epochs=1))


class Doubled(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        return tuple(tensor * 2 for tensor in self.tensors)[int(index) : int(index) + 1]


@pytest.mark.parametrize(
    "data",
    [
        Pictures(),
        rows(),
        np.zeros((4, 2)),
        Doubled(rows()),
        [(1, 2)],
        Subset(Pictures(), [1]),
        ConcatDataset([table(), table()]),
    ],
)
def test_other_data_sets_are_refused_with_the_way_out(data: Any) -> None:
    with pytest.raises(UserError, match=r"hotlap\.data\.cached"):
        batched(data)


def test_is_the_data_set_to_all_who_look() -> None:
    raw = table()
    ours = batched(raw)
    assert batched(ours) is ours and type(ours) is BatchedDataset
    assert isinstance(ours, TensorDataset) and ours.tensors is raw.tensors and len(ours) == 50
    ours.extra = 1
    assert raw.extra == 1
    with pytest.raises(IndexError):
        ours[50]


def test_no_order_of_a_whole_epoch_is_held_for_a_loader_in_order() -> None:
    loader = DataLoader(batched(TensorDataset(torch.zeros(1, dtype=torch.uint8).expand(3_000_000))), batch_size=32)
    next(iter(loader))
    tracemalloc.start()
    try:
        next(iter(loader))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000  # a list of its indices takes 24 MB and more
    finally:
        tracemalloc.stop()
