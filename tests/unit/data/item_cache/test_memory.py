"""What may be taken: as given, or of what is free; promised once only, and given back."""

import pytest
import torch
from torch.utils.data import TensorDataset

from hotlap.data import batched, cached
from hotlap.data.item_cache import memory
from hotlap.data.item_cache.memory import Allowance, given_bytes, limit_bytes
from hotlap.errors import UserError
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs


class Owner:
    pass


@pytest.fixture(autouse=True)
def a_thousand_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.cgroups.available_bytes", lambda: 1000)
    monkeypatch.delenv("HOTLAP_MEMORY", raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


def test_four_fifths_of_what_is_free_may_be_taken_and_no_byte_twice() -> None:
    allowance, first = Allowance(), Owner()
    assert allowance.left_bytes() == 800
    allowance.take(first, 500)  # pages that nobody has touched yet: the system still calls them free
    second = Owner()
    assert allowance.left_bytes() == 300
    allowance.take(second, 300)
    assert allowance.left_bytes() == 0
    del first
    assert allowance.left_bytes() == 500


def test_what_others_have_taken_meanwhile_is_not_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    allowance, first = Allowance(), Owner()
    allowance.take(first, 100)
    monkeypatch.setattr("hotlap.cgroups.available_bytes", lambda: 50)
    assert allowance.left_bytes() == 40


def test_who_is_told_again_has_the_new_figure() -> None:
    allowance, first = Allowance(), Owner()
    allowance.take(first, 100)
    allowance.take(first, 600)
    assert allowance.left_bytes() == 200


def test_a_size_that_was_given_holds_for_all_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MEMORY", "900")
    first = Owner()
    assert limit_bytes() == limit_bytes(5000) == 900
    memory.ALLOWANCE.take(first, 700)
    assert limit_bytes() == limit_bytes(5000) == 200 and limit_bytes(100) == 100
    monkeypatch.setenv("HOTLAP_MEMORY", "10GB")
    assert limit_bytes() == 1000, "what is not there cannot be taken"


def test_processes_of_one_training_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert limit_bytes() == 200
    monkeypatch.setenv("HOTLAP_MEMORY", "400")
    assert limit_bytes() == 100


def test_processes_that_a_script_starts_itself_share_it_once_they_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    assert limit_bytes() == 800, "nobody started this process, so its peers may be elsewhere"
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "one")
    assert limit_bytes() == 400
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: False)
    assert limit_bytes() == 800


def test_what_is_no_size_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MEMORY", "plenty")
    with pytest.raises(UserError, match="HOTLAP_MEMORY=plenty is not a size"):
        given_bytes()


def test_two_caches_take_no_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotlap.cgroups.available_bytes", lambda: 1 << 30)
    monkeypatch.setenv("HOTLAP_MEMORY", "5000")
    train, val = cached(Pictures()), cached(Pictures())  # 50 items of 64 bytes and a number each
    for kept in (train, val):
        assert_same_epochs(epochs(kept), epochs(Pictures()))
    assert train.full and train.note is None
    assert val.num_cached == 0 and val.note is not None and "; cached(..., disk=True) keeps them in a file" in val.note


def test_data_in_memory_already_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOTLAP_MEMORY", "1MB")
    monkeypatch.setattr("hotlap.cgroups.available_bytes", lambda: 1 << 30)
    data = batched(TensorDataset(torch.zeros(1000, 8)))
    assert len(epochs(data)) > 0 and limit_bytes() == 1_000_000
