"""What the probe finds out about optimizers and models."""

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset, random_split

from hotlap.probe import denormals
from hotlap.probe.epochs import Epochs
from hotlap.probe.facts import Facts
from hotlap.probe.profilers import NAMES
from hotlap.record import LoaderFacts
from hotlap.tune import measuring


def denormals_of(optimizer: torch.optim.Optimizer) -> float | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(denormals, "are_slow", lambda: True)
        return facts_of(optimizer)


def facts_of(optimizer: torch.optim.Optimizer) -> float | None:
    facts = Facts()
    facts.made_optimizer(optimizer)
    return facts.optimizer_facts()[0].denormals


def test_denormal_numbers_are_counted_in_parameters_and_state() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=1e-3)
    assert denormals_of(optimizer) == 0.0
    weight.grad = torch.zeros(3)
    optimizer.step()
    optimizer.state[weight]["exp_avg"][0] = 1e-40
    # One of three weights, two moments of three, and the count of steps.
    assert denormals_of(optimizer) == 1 / 10


def test_zero_and_the_smallest_normal_number_are_not_denormal() -> None:
    smallest = torch.finfo(torch.float32).smallest_normal
    weight = torch.nn.Parameter(torch.tensor([0.0, smallest, -smallest, -smallest / 2]))
    assert denormals_of(torch.optim.SGD([weight], lr=0.1)) == 1 / 4


def test_denormal_numbers_are_no_matter_where_they_are_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denormals, "are_slow", lambda: False)
    assert facts_of(torch.optim.SGD([torch.nn.Parameter(torch.full((4,), 1e-40))], lr=0.1)) is None


@pytest.mark.parametrize(("factor", "slow"), [(1.0, False), (20.0, True)])
def test_they_are_slow_where_a_product_takes_many_times_as_long(
    factor: float, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denormals, "_product_s", lambda value: 1e-6 if value == 1.0 else factor * 1e-6)
    assert denormals.are_slow.__wrapped__() is slow


def test_a_models_convolutions_are_told_with_its_call() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, groups=2), torch.nn.Conv2d(4, 4, 3), torch.nn.Linear(2, 2))
    for turned in (False, True):
        facts = Facts()
        if turned:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        facts.saw_forward(model, torch.ones(1))
        (site,) = facts.all_call_sites()
        assert site.detail == {
            "returns": "Tensor",
            "parameters": True,
            "convolutions": 2,
            "grouped": 1,
            "channels_last": turned,
            "torch_forward": True,
            "beyond_linear": "Conv2d",
        }


def test_the_first_look_asks_for_profilers_that_there_are() -> None:
    assert {*measuring.PROFILERS, *measuring.FULL} <= NAMES


def test_a_library_between_the_users_line_and_the_call_is_told() -> None:
    facts = Facts()
    functools.singledispatch(facts.saw_forward)(torch.nn.Linear(1, 1), torch.ones(1))
    facts.saw_forward(torch.nn.Linear(1, 1), torch.ones(1))
    through, direct = facts.all_call_sites()
    assert through.detail["through"] == "functools"
    assert "through" not in direct.detail


@pytest.mark.parametrize("keeps", [False, True])
def test_a_data_set_that_the_script_drops_is_gone_unless_items_are_wanted(keeps: bool) -> None:
    facts = Facts(keeps_data=keeps)
    data = TensorDataset(torch.ones(6, 2))
    gone = weakref.ref(data)
    facts.made_loader(DataLoader(data, batch_size=2))
    (before,) = facts.loader_facts(sample=True)
    assert before.deterministic is True
    del data
    gc.collect()
    assert (gone() is None) is not keeps
    (after,) = facts.loader_facts(sample=True)
    assert (after.dataset, after.num_items, after.iterable) == ("TensorDataset", 6, False)
    assert after.deterministic is (True if keeps else None)


def test_a_list_is_a_data_set_for_as_long_as_its_loader() -> None:
    facts = Facts()
    loader: DataLoader[float] = DataLoader([1.0, 2.0])  # type: ignore[arg-type] # a list is a data set
    facts.made_loader(loader)
    assert facts.loader_facts(sample=True)[0].deterministic is True
    del loader
    gc.collect()
    assert facts.loader_facts(sample=True)[0].deterministic is None


def test_of_shared_items_an_epoch_has_the_batches_of_this_process() -> None:
    facts, data = Facts(), TensorDataset(torch.ones(40, 2))
    sampler: DistributedSampler[Any] = DistributedSampler(data, num_replicas=2, rank=1)
    facts.made_loader(DataLoader(data, batch_size=4, sampler=sampler))
    assert facts.loader_facts(sample=False)[0].num_batches == 5


def test_knows_what_a_part_of_a_data_set_is_of() -> None:
    facts = Facts()
    data = TensorDataset(torch.arange(8))
    loader = DataLoader(Subset(random_split(data, [6, 2])[0], [0, 1]))
    facts.made_loader(loader)
    (found,) = facts.loader_facts(sample=False)
    assert (found.dataset, found.subset_of) == ("Subset", "TensorDataset")


class Numbers(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


def gone_through(*datasets: Callable[[], Any], epochs: int = 1) -> LoaderFacts:
    """Each is made, and gone through so often; all loaders are made at one line, as in the head of a loop."""
    facts = Facts(keeps_data=True)
    for make in datasets:
        loader: DataLoader[Any] = DataLoader(make())
        facts.made_loader(loader)
        for _ in range(epochs):
            facts.started_loader(loader)
    (found,) = facts.loader_facts(sample=False)
    return found


def anew(*datasets: Callable[[], Any], epochs: int = 1) -> bool:
    return gone_through(*datasets, epochs=epochs).dataset_anew


def test_a_data_set_that_is_made_anew_for_each_epoch_is_told_from_one_that_stays() -> None:
    first, second = Numbers(), Numbers()
    some = [1, 2]
    assert anew(Numbers, Numbers)
    assert not anew(Numbers)
    assert not anew(lambda: first, lambda: first)
    assert not anew(lambda: first, lambda: second, lambda: first), "shards of which each comes again"
    assert not anew(lambda: some, lambda: some)


def test_a_data_set_that_serves_all_epochs_of_one_model_is_not_made_anew() -> None:
    assert not anew(Numbers, Numbers, Numbers, epochs=2), "a k-fold, or a search over a grid"


def test_a_held_out_set_that_is_gone_through_once_behind_each_training_is_no_sign_of_it() -> None:
    facts = Facts()

    def load() -> "DataLoader[Any]":
        loader: DataLoader[Any] = DataLoader(Numbers())
        facts.made_loader(loader)
        return loader

    for _ in range(3):
        train, held_out = load(), load()
        for _ in range(4):
            facts.started_loader(train)
        facts.started_loader(held_out)
    del train, held_out
    facts.started_loader(load())
    (found,) = facts.loader_facts(sample=False)
    assert not found.dataset_anew


def test_one_look_at_a_batch_does_not_hide_that_each_epoch_has_a_data_set_of_its_own() -> None:
    epochs = Epochs()
    for num_begun in (2, 1, 1, 1):
        data = Numbers()
        for _ in range(num_begun):
            epochs.begins(data)
    assert not epochs.anew, "not known yet: two epochs of the first, two of others that were dropped"
    data = Numbers()
    epochs.begins(data)
    assert epochs.anew


def test_a_loader_may_be_made_anew_around_a_data_set_that_stays() -> None:
    data = Numbers()
    assert gone_through(lambda: data, lambda: data).loader_anew
    assert not gone_through(lambda: data, lambda: data, epochs=2).loader_anew


def test_the_batches_that_are_trained_on_are_counted_by_the_place_of_their_loader() -> None:
    facts = Facts()
    for _ in range(2):
        loader: DataLoader[Any] = DataLoader(Numbers())
        facts.made_loader(loader)
        facts.drawn_for_training([facts.started_loader(loader), None])
    held_out: DataLoader[Any] = DataLoader(Numbers())
    facts.made_loader(held_out)
    trained, other = facts.loader_facts(sample=False)
    assert (trained.trained_on, trained.num_trained) == (True, 2)
    assert (other.trained_on, other.num_trained) == (False, 0)
