"""Buffers: memory is used again once the script has let go of it, and not a moment sooner."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hotlap.data import memory
from hotlap.data.buffers import Buffers

ROWS = 100


def buffers() -> Buffers:
    return Buffers((1000,), torch.float32)


def address(batch: torch.Tensor) -> int:
    return batch.untyped_storage().data_ptr()


def test_memory_that_nobody_holds_is_used_again() -> None:
    held = buffers()
    first = held.take(ROWS)
    place = address(first)
    del first
    assert address(held.take(ROWS)) == place


@pytest.mark.parametrize(
    "keep",
    [
        lambda batch: batch,
        lambda batch: batch[3:4, 5],
        lambda batch: batch.detach(),
        lambda batch: batch.numpy()[7:],
        lambda batch: batch.untyped_storage(),
        lambda batch: memoryview(batch.numpy()),
        lambda batch: (batch * torch.ones((), requires_grad=True)).grad_fn,
    ],
    ids=["tensor", "view", "detached", "array", "storage", "memoryview", "graph"],
)
def test_memory_that_is_held_in_any_way_is_left_alone(keep: Callable[[torch.Tensor], Any]) -> None:
    held = buffers()
    batch = held.take(ROWS)
    place = address(batch)
    kept = keep(batch)
    del batch
    assert all(address(held.take(ROWS)) != place for _ in range(6))
    assert kept is not None


def test_a_batch_that_the_script_resized_is_not_used_again() -> None:
    held = buffers()
    batch = held.take(ROWS)
    batch.resize_(3 * ROWS, 1000)
    del batch
    again = held.take(ROWS)
    assert again.untyped_storage().nbytes() == ROWS * 1000 * 4


def test_batches_are_ordinary_tensors() -> None:
    held = buffers()
    for _ in range(2):
        batch = held.take(ROWS)
        assert batch.is_contiguous() and batch.shape == (ROWS, 1000) and not batch.requires_grad
        assert batch.storage_offset() == 0 and not batch.is_inference()
        del batch
    with torch.inference_mode():
        assert held.take(ROWS).is_inference()


def test_few_buffers_are_held() -> None:
    held = buffers()
    batches = [held.take(ROWS) for _ in range(20)]
    assert len({address(batch) for batch in batches}) == 20
    del batches
    assert len(held._held) == 4


def test_holds_no_more_than_may_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ALLOWANCE, "_held", {})
    monkeypatch.setenv("HOTLAP_MEMORY", "200000B")
    buffers = Buffers((1000,), torch.float32)
    batches = [buffers.take(20) for _ in range(4)]  # of 80,000 bytes each: two may be held
    assert 0 <= memory.limit_bytes() < 80_000
    places = [batch.data_ptr() for batch in batches]
    del batches
    again = [buffers.take(20) for _ in range(2)]
    assert {batch.data_ptr() for batch in again} <= set(places[:2])
    del buffers
    assert memory.limit_bytes() == 200_000
