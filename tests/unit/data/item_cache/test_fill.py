"""Many cold fillings on a busy machine: each batch, from the first on, holds the rows of the items that it names.

`HOTLAP_TEST_FILLINGS=2000 pytest tests/unit/data/item_cache/test_fill.py` looks longer.
"""

import os
import sys
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, default_collate

from hotlap.data import cached
from hotlap.data.checks.forked import fill_in_copies
from hotlap.data.item_cache.shared_memory import shared_tensor
from tests.unit.data.pictures import Bytes, Normalize, ToTensor
from tests.unit.data.pipelines import Compose
from tests.unit.data.sets import seed

NUM_FILLINGS = int(os.environ.get("HOTLAP_TEST_FILLINGS", "3"))
NUM_ITEMS = 700
NUM_VALUES = 97  # rows that do not end where cache lines or pages do


def rows(index: torch.Tensor) -> torch.Tensor:
    """(B, V) what the items of these numbers hold: each element of each item is another number."""
    return (index[:, None] * 131.0 + torch.arange(NUM_VALUES)) / 7


class Small(Dataset[Any]):
    def __len__(self) -> int:
        return NUM_ITEMS

    def __getitem__(self, index: int) -> Any:
        return rows(torch.tensor([index]))[0], index


def _spin() -> None:
    os.nice(19)  # as low as the fillers, so that these do not wait for ever
    while True:
        sum(range(1000))


@pytest.fixture
def busy() -> Iterator[None]:
    """As many processes as cores that want to compute all the time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        processes = [get_context("fork").Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
        for process in processes:
            process.start()
        yield
    for process in processes:
        process.kill()
        process.join()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("limit_s", [60.0, 0.005], ids=["in time", "cut off"])
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.processes)])
@pytest.mark.parametrize("disk", [False, True])
def test_every_batch_holds_what_it_names(
    limit_s: float, num_workers: int, disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*args: Any, **settings: Any) -> None:
        fill_in_copies(*args, **settings | {"limit_s": limit_s})

    if num_workers and limit_s < 1.0:
        pytest.skip("loaders with workers have no other fillers")
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_LEAST_S", 0.0)
    monkeypatch.setattr("hotlap.data.item_cache.engine.fill_in_copies", fill)
    monkeypatch.setattr("hotlap.data.item_cache.engine.usable_cores", lambda: 2)
    for number in range(NUM_FILLINGS):
        seed(number)
        kept = cached(Small(), disk=tmp_path / str(number) if disk else False)
        loader = DataLoader(kept, batch_size=64, shuffle=True, num_workers=num_workers)
        for epoch in range(2):
            seen: list[Any] = []
            for values, index in loader:
                assert torch.equal(values, rows(index)), f"filling {number}, epoch {epoch}, batch {len(seen)}"
                seen.append(index)
            assert torch.equal(torch.cat(seen).sort().values, torch.arange(NUM_ITEMS))
        assert kept.note is None and not kept.warm


ASKED: Any = shared_tensor((1,), torch.int64)
"""Pictures that went through `ToTensor`, in whichever process; where nobody looks."""


@pytest.mark.parametrize("steps", [(), (Normalize(0.5, 0.25),)], ids=["ToTensor", "Normalize"])
def test_what_copies_look_up_is_what_the_script_computes(steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.data.item_cache.engine.FILL_LEAST_S", 0.0)
    monkeypatch.setattr("hotlap.data.item_cache.engine.usable_cores", lambda: 2)
    convert = ToTensor.__call__

    def counts(step: Any, picture: Any) -> torch.Tensor:
        if picture.size != (16, 16):  # of all bytes
            sys.modules[__name__].ASKED.add_(1)
        return convert(step, picture)

    monkeypatch.setattr(ToTensor, "__call__", counts)
    plain = Bytes(Compose([ToTensor(), *steps]), num_channels=1, make=Image.fromarray)
    ours, held = cached(plain), [*plain.transform.transforms]
    for _ in range(2):
        ASKED.zero_()
        seen = [*DataLoader(ours, batch_size=4)]
        assert ours.full and ours.note is None
        assert int(ASKED) <= 4 + 2 + 2, "those of the first batch, two of them once more, and one in each copy"
        for (numbers, labels), start in zip(seen, range(0, len(plain), 4), strict=True):
            expected = default_collate([plain[number] for number in range(start, min(start + 4, len(plain)))])
            assert torch.equal(numbers.view(torch.int32), expected[0].view(torch.int32))
            assert torch.equal(labels, expected[1])
        assert plain.transform.transforms == held
