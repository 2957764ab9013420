"""batched-fetch: when it applies, what it wraps, and what it leaves alone."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hotlap.data import BatchedDataset
from hotlap.levers import Patch
from hotlap.levers.batched_fetch import BatchedFetch
from hotlap.record import LoaderFacts, Run
from hotlap.source import WrapArgument
from tests.sample_runs import loader, machine, run_with, site
from tests.unit.data.sets import Pictures


def run_of(*loaders: LoaderFacts) -> Run:
    sites = tuple(
        replace(site("torch.utils.data.DataLoader", 10 + facts.id), detail={"loader": facts.id}) for facts in loaders
    )
    return replace(run_with(input_s=0.002), loaders=loaders, call_sites=sites)


def table() -> LoaderFacts:
    return replace(loader(), dataset="TensorDataset")


def test_lists_are_worth_a_trial() -> None:
    assert BatchedFetch().rejects(run_of(replace(loader(), dataset="list")), machine()) is None


def test_is_worth_a_trial_where_data_lies_in_memory() -> None:
    run = run_of(loader(), replace(table(), id=1))
    assert BatchedFetch().rejects(run, machine()) is None
    (edit,) = BatchedFetch().edits(run)
    assert isinstance(edit, WrapArgument) and edit.site.line == 11 and edit.function == "batched"


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_of(), "The script makes no DataLoader."),
        (run_of(loader()), "Items of Digits are made in Python, one by one; there is nothing to gather them from."),
        (
            replace(run_of(table()), call_sites=()),
            "The loaders are not made in the script's own source, so there is no line to change.",
        ),
    ],
)
def test_says_why_it_is_not_worth_one(run: Run, reason: str) -> None:
    assert BatchedFetch().rejects(run, machine()) == reason


@pytest.fixture
def patch() -> Iterator[Patch]:
    made = Patch()
    BatchedFetch().install(made)
    yield made
    made.undo()


@pytest.mark.usefixtures("patch")
def test_wraps_the_data_set_however_it_is_given() -> None:
    data: Any = TensorDataset(torch.zeros(8))
    for made in (DataLoader(data, 8, True), DataLoader(dataset=data)):
        assert type(made.dataset) is BatchedDataset and made.dataset._hotlap_dataset is data
    assert type(DataLoader([1, 2]).dataset) is BatchedDataset  # type: ignore[arg-type]
    assert type(DataLoader(Pictures()).dataset) is Pictures
    with pytest.raises(TypeError, match="dataset"):
        DataLoader()  # type: ignore[call-arg]
