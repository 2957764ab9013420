"""The cached-dataset lever: when it applies, what it wraps, how it reads as source."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from hotlap import at_work
from hotlap.data import cached
from hotlap.levers.data_wrappers import CachedDataset
from hotlap.record import Ceiling, Interval, LoaderFacts, Run
from hotlap.search.candidates import rejects
from hotlap.source import WrapArgument, scripts
from tests.conformance.recorded import run_of as recorded
from tests.sample_runs import loader, machine, run_with, site
from tests.unit.data.sets import Pictures

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
            {"num_items": 10**12, "item_s": None},
            "The 1000000000000 items of Digits would take 2859 TiB, more than the 15.2 GiB of memory that may be used.",
        ),
        (
            {"default_collate": False, "item_s": 1e-9},
            "Items of Digits cost next to nothing; putting them together does, and is done each time.",
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


def test_each_process_that_trains_keeps_its_items() -> None:
    together = replace(run_of(replace(loader(), num_items=10**12)), world_size=4)
    said = rejects(CachedDataset(), together, machine())
    assert said is not None
    assert said.startswith("The 1000000000000 items of Digits in each of 4 processes would take 11438 TiB, more than")


def test_one_loader_that_is_served_is_enough() -> None:
    run = run_of(replace(loader(), deterministic=False), replace(loader(), id=1, num_workers=4))
    assert CachedDataset().rejects(run, machine()) is None
    assert [edit.site.line for edit in CachedDataset().edits(run) if isinstance(edit, WrapArgument)] == [11]


@pytest.mark.parametrize(
    "call",
    [
        "DataLoader(**given)",
        "DataLoader(*given)",
        "list(map(make, datasets))",
        "functools.reduce(make, datasets)",
        "DataLoader.__init__(self, data)",
        "make(batch_size=3)",
    ],
)
def test_a_loader_whose_data_set_cannot_be_seen_is_left_and_others_are_served(call: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"import functools; from torch.utils.data import DataLoader\na = {call}\nb = DataLoader(data)\n")
    seen = recorded(path)
    (script,) = scripts(seen)
    first, second = (one for one in script.all_calls if isinstance(next(script.around(one)), ast.Assign))
    made = tuple(replace(script.site(one, calls=LOADER), detail={"loader": n}) for n, one in enumerate((first, second)))
    run = replace(seen, call_sites=made, loaders=(loader(), replace(loader(), id=1)))
    assert [edit.site.line for edit in CachedDataset().edits(run)] == [3]
    assert CachedDataset().rejects(run, machine()) is None
    assert CachedDataset().rejects(replace(run, loaders=(loader(),)), machine()) == (
        "The data set that the loader is given in line 2 cannot be seen there: write it out."
    )


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
    assert edit == WrapArgument(
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


def test_a_trial_waits_until_what_is_in_use_is_full() -> None:
    train, unused = cached(Pictures()), cached(Pictures(9))
    assert at_work.settled() and len(unused) == 9
    batches = iter(DataLoader(train, batch_size=8))
    next(batches)
    assert not at_work.settled()
    for _ in batches:
        pass
    assert at_work.settled()


def test_one_that_gave_up_was_not_at_work() -> None:
    draws = cached(Pictures(50, lambda _: torch.rand(()).item()))
    assert at_work.why_idle("cached") is None, "nothing was asked for yet"
    list(DataLoader(draws, batch_size=8))
    told = "an item of Pictures draws random numbers (from torch), so items are computed each time"
    assert at_work.notes() == [told] and at_work.why_idle("cached") == told
    assert at_work.settled()
    works = cached(Pictures())
    list(DataLoader(works, batch_size=8))
    assert at_work.why_idle("cached") is None, "one is"
