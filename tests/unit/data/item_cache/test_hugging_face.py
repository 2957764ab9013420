"""Hugging Face's `datasets` behind cached(): in memory, in files, shuffled, with a format or a transform."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hotlap.data import cached
from tests.unit.data.sets import assert_same_epochs, epochs

datasets: Any = pytest.importorskip("datasets", reason="datasets is not installed")

NUM_ITEMS = 60


def table() -> Any:
    ids = [[number + place for place in range(8)] for number in range(NUM_ITEMS)]
    return datasets.Dataset.from_dict({"input_ids": ids, "labels": [number % 3 for number in range(NUM_ITEMS)]})


def as_tensors(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.tensor(values) for name, values in batch.items()}


KINDS: dict[str, Callable[[Path], Any]] = {
    "format": lambda _: table().with_format("torch"),
    "transform": lambda _: table().with_transform(as_tensors),
    "shuffled": lambda _: table().shuffle(seed=1).select(range(40)).with_format("torch"),
    "files": lambda folder: in_files(folder).with_format("torch"),
}


def in_files(folder: Path) -> Any:
    if not (folder / "saved").exists():
        table().save_to_disk(folder / "saved")
    return datasets.load_from_disk(folder / "saved")


@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_states_are_those_of_the_script(kind: str, tmp_path: Path) -> None:
    ours = cached(KINDS[kind](tmp_path))
    assert_same_epochs(epochs(ours), epochs(KINDS[kind](tmp_path)))
    assert ours.full and ours.note is None


def test_the_next_run_finds_them_on_disk(tmp_path: Path) -> None:
    for warm in (False, True):
        ours = cached(KINDS["files"](tmp_path), disk=tmp_path / "cache")
        assert_same_epochs(epochs(ours), epochs(KINDS["files"](tmp_path)))
        assert ours.warm is warm and ours.note is None
