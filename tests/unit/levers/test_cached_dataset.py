"""The cached-dataset lever: when it applies, what it wraps, how it reads as source."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from hotlap import at_work
from hotlap.data import CachedDataset as Wrapper
from hotlap.data import cached
from hotlap.data.recent import MAX_HELD
from hotlap.levers.cached_dataset import CachedDataset
from hotlap.levers.lever import Patch
from hotlap.record import Ceiling, Interval, LoaderFacts, Run
from hotlap.source import WrapArgument
from tests.sample_runs import loader, machine, run_with, site
from tests.unit.data.sets import Pictures, assert_same_epochs, epochs

LOADER = "torch.utils.data.DataLoader"


def run_of(*loaders: LoaderFacts, input_s: float = 0.002) -> Run:
    sites = tuple(replace(site(LOADER, 10 + facts.id), detail={"loader": facts.id}) for facts in loaders)
    return replace(run_with(input_s=input_s), loaders=loaders, call_sites=(*sites, site("torch.optim.Adam", 30)))


def test_is_worth_a_trial_on_a_small_map_style_data_set() -> None:
    assert CachedDataset().rejects(run_of(loader()), machine()) is None


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"num_items": None}, "Digits is an iterable data set: it has no items to look up by number."),
        (
            {"deterministic": False, "why_not": "an item drew from random"},
            "Items of Digits are not always the same: an item drew from random.",
        ),
        (
            {"num_items": 10**12},
            "The 1000000000000 items of Digits would take 2859 TiB, more than the 15.2 GiB of memory that may be used, "
            "and more than the disk has room for.",
        ),
        (
            {"dataset_anew": True},
            "The script makes Digits anew for a later epoch, and what is kept goes with the old one: make it once, "
            "before the loop over epochs.",
        ),
    ],
)
def test_says_why_a_data_set_is_not_served(facts: dict[str, Any], reason: str) -> None:
    assert CachedDataset().rejects(run_of(replace(loader(), **facts)), machine()) == reason


def test_one_loader_that_is_served_is_enough() -> None:
    run = run_of(replace(loader(), deterministic=False), replace(loader(), id=1, num_workers=4))
    assert CachedDataset().rejects(run, machine()) is None
    assert [edit.site.line for edit in CachedDataset().edits(run) if isinstance(edit, WrapArgument)] == [11]


def test_a_loader_that_is_not_trained_on_is_no_reason_to_try() -> None:
    run = run_of(replace(loader(), deterministic=False), replace(loader(), id=1, trained_on=False))
    assert CachedDataset().rejects(run, machine()) is not None


def test_a_script_without_loaders_or_without_waiting_has_nothing_to_gain() -> None:
    assert CachedDataset().rejects(run_of(), machine()) == "The script makes no DataLoader."
    idle = run_of(loader(), input_s=0.00001)
    assert CachedDataset().rejects(idle, machine()) == (
        "Waiting for batches takes 0.3% of a step, so there is nothing to gain."
    )


def test_loaders_that_the_script_does_not_make_itself_cannot_be_changed() -> None:
    run = replace(run_of(loader()), call_sites=())
    assert CachedDataset().rejects(run, machine()) is not None
    assert not CachedDataset().edits(run)


def test_saves_at_most_the_waiting_or_what_the_ceiling_promises_if_that_is_more() -> None:
    run = run_of(loader(), input_s=0.002)
    step_s = sum(run.step_s) / len(run.step_s)
    low = Ceiling(name="input", idealised="-", step_s=0.0022, speedup=Interval(low=1, mid=1.1, high=1.2))
    high = Ceiling(name="input", idealised="-", step_s=0.0002, speedup=Interval(low=1, mid=5, high=10))
    assert CachedDataset().saves_at_most_s(run, ()) == pytest.approx(0.002)
    assert CachedDataset().saves_at_most_s(run, (low,)) == pytest.approx(0.002)
    assert CachedDataset().saves_at_most_s(run, (high,)) == pytest.approx(0.9 * step_s)


def test_reads_as_cached_around_the_data_set() -> None:
    (edit,) = CachedDataset().edits(run_of(loader()))
    assert isinstance(edit, WrapArgument)
    assert replace(edit, inside=()) == WrapArgument(
        site=run_of(loader()).call_sites[0],
        position=0,
        keyword="dataset",
        function="cached",
        arguments="disk=True",
        imports="from hotlap.data import cached",
    )


def test_a_line_that_makes_two_loaders_is_changed_once() -> None:
    run = run_of(loader(), replace(loader(), id=1))
    same_line = tuple(replace(run.call_sites[0], detail={"loader": number}) for number in (0, 1))
    assert len(CachedDataset().edits(replace(run, call_sites=same_line))) == 1


@pytest.fixture
def patch() -> Any:
    made = Patch()
    CachedDataset().install(made)
    yield made
    made.undo()


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(range(4))


def test_wraps_the_data_set_however_it_is_given(patch: Patch) -> None:
    pictures = Pictures()
    for made in (DataLoader(pictures, 8, True), DataLoader(dataset=pictures), DataLoader(pictures, num_workers=2)):
        assert type(made.dataset) is Wrapper
        assert made.dataset._hotlap_kept.dataset is pictures


def test_two_loaders_of_one_data_set_share_its_items(patch: Patch) -> None:
    pictures = Pictures()
    assert DataLoader(pictures).dataset is DataLoader(pictures, shuffle=True).dataset


def test_leaves_alone_what_it_does_not_serve(patch: Patch) -> None:
    kept = cached(Pictures())
    assert DataLoader(kept).dataset is kept
    assert type(DataLoader(Stream()).dataset) is Stream
    with pytest.raises(TypeError, match="dataset"):
        DataLoader()  # type: ignore[call-arg]


def test_undoing_restores_the_constructor() -> None:
    before = DataLoader.__init__
    made = Patch()
    CachedDataset().install(made)
    assert DataLoader.__init__ is not before
    made.undo()
    assert DataLoader.__init__ is before
    assert type(DataLoader(Pictures()).dataset) is Pictures


def test_batches_and_random_streams_stay_bit_for_bit(patch: Patch) -> None:
    with_lever = epochs(Pictures())
    tensors = TensorDataset(torch.arange(50.0), torch.arange(50))
    tensors_with = epochs(tensors)
    patch.undo()
    assert_same_epochs(with_lever, epochs(Pictures()))
    assert_same_epochs(tensors_with, epochs(tensors))


def test_is_settled_when_what_is_in_use_is_full(patch: Patch) -> None:
    (settled,) = patch.settled
    train = DataLoader(Pictures(), batch_size=8)
    DataLoader(Pictures(9))  # made, but never drawn from
    assert settled()
    batches = iter(train)
    next(batches)
    assert not settled()
    for _ in batches:
        pass
    assert settled()


def test_says_in_the_record_why_it_gave_up(patch: Patch) -> None:
    list(DataLoader(Pictures(50, lambda _: torch.rand(()).item()), batch_size=8))
    assert at_work.notes() == ["an item of Pictures draws random numbers (from torch), so items are computed each time"]
    assert patch.settled[0]()


def test_one_that_gave_up_was_not_at_work(patch: Patch) -> None:
    assert patch.why_idle() is None, "nothing was asked for yet"
    epochs(Pictures(build=lambda number: torch.rand(2)), num_epochs=1)
    assert patch.why_idle() is not None
    epochs(Pictures(), num_epochs=1)
    assert patch.why_idle() is None, "one is"


def test_holds_the_items_of_a_few_data_sets_that_no_loader_uses(patch: Patch) -> None:
    first = Pictures()
    list(DataLoader(first, batch_size=8))
    assert DataLoader(first).dataset.full  # type: ignore[attr-defined]
    for _ in range(MAX_HELD):
        DataLoader(Pictures())
    assert not DataLoader(first).dataset.full  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("facts", "arguments"),
    [
        ({}, "disk=True"),  # 60,000 items of 36 us and 3 kB each
        ({"num_items": 1_000}, ""),  # soon made
        ({"item_bytes": 36_000}, ""),  # not sooner read
        ({"item_s": None}, ""),  # made by workers: nobody knows
    ],
)
def test_is_kept_on_disk_where_the_next_run_would_gain_by_it(facts: dict[str, Any], arguments: str) -> None:
    (edit,) = CachedDataset().edits(run_of(replace(loader(), **facts)))
    assert isinstance(edit, WrapArgument) and edit.arguments == arguments
