"""batched-fetch: when it applies, what it wraps, and what it leaves alone."""

from dataclasses import replace

import pytest

from hotlap.levers.data_wrappers import BatchedFetch
from hotlap.record import LoaderFacts, Run
from hotlap.source import WrapArgument
from tests.sample_runs import loader, machine, run_with, site


def run_of(*loaders: LoaderFacts) -> Run:
    sites = tuple(
        replace(site("torch.utils.data.DataLoader", 10 + facts.id), detail={"loader": facts.id}) for facts in loaders
    )
    return replace(run_with(input_s=0.002), loaders=loaders, call_sites=sites)


def table() -> LoaderFacts:
    return replace(loader(), dataset="TensorDataset")


def test_is_worth_a_trial_where_data_lies_in_memory() -> None:
    run = run_of(loader(), replace(table(), id=1))
    assert BatchedFetch().rejects(run, machine()) is None
    (edit,) = BatchedFetch().edits(run)
    assert isinstance(edit, WrapArgument) and edit.site.line == 11 and edit.function == "batched"


def test_parts_of_such_data_are_served_too() -> None:
    part = replace(loader(), dataset="Subset", subset_of="TensorDataset")
    assert BatchedFetch().rejects(run_of(part), machine()) is None
    other = BatchedFetch().rejects(run_of(replace(part, subset_of="Digits")), machine())
    assert other == "Items of Digits are made in Python, one by one; there is nothing to gather them from."


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
