"""workers and no-epoch-gap: when they apply, and what is tried."""

from dataclasses import replace
from typing import Any

import pytest

from hotlap.levers import Numerics
from hotlap.levers.no_epoch_gap import NoEpochGap
from hotlap.levers.workers import Workers
from hotlap.record import LoaderFacts, Machine, Phase, Run
from tests.sample_runs import loader, machine, run_with, site


def run_of(facts: LoaderFacts, *, input_s: float = 0.0064, step_s: float = 0.0080) -> Run:
    made = replace(site("torch.utils.data.DataLoader", 10), detail={"loader": facts.id})
    return replace(run_with(step_s=step_s, input_s=input_s), loaders=(facts,), call_sites=(made,))


def large() -> Machine:
    return replace(machine(), usable_cores=16.0, num_cores=16)


def test_as_many_as_keep_up_are_tried_first() -> None:
    tried = Workers.candidates(run_of(loader()), large())
    assert tried[0].num_workers == 4  # 6.4 ms of making for 1.6 ms of training
    assert {each.num_workers for each in tried} == {4, 16, 8, 15}
    assert [each.prefetch_factor for each in tried].count(4) == 1


def test_never_more_than_the_cores() -> None:
    half = replace(machine(), usable_cores=0.5)
    assert all(each.num_workers <= 2 for each in Workers.candidates(run_of(loader()), half))


@pytest.mark.parametrize(
    ("deterministic", "numerics"),
    [(True, Numerics.EXACT), (False, Numerics.STATISTICAL), (None, Numerics.STATISTICAL)],
)
def test_what_it_does_to_the_numbers_depends_on_the_items(deterministic: bool | None, numerics: Numerics) -> None:
    run = run_of(replace(loader(), deterministic=deterministic))
    assert {each.numerics for each in Workers.candidates(run, machine())} == {numerics}
    assert Workers.numerics is Numerics.STATISTICAL


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"num_items": None}, "each worker would give all of it"),
        ({"num_items": 100}, "over after 100 items"),
        ({"deterministic": False, "why_not": "item 0 came out different the second time"}, "hidden state"),
        ({"num_workers": 0, "start_method": "spawn"}, "would be started by spawn"),
        ({"item_bytes": 1 << 28}, "of /dev/shm"),
        ({"num_workers": 2}, "a num_workers of 2 already"),
    ],
)
def test_says_why_workers_are_not_tried(facts: dict[str, Any], reason: str) -> None:
    answer = Workers(num_workers=2).rejects(run_of(replace(loader(), **facts)), machine())
    assert answer is not None and reason in answer


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_number_of_workers_is_tried_however_they_are_started(method: str) -> None:
    facts = replace(loader(), num_workers=2, start_method=method)
    tried = Workers.candidates(run_of(facts), large())
    assert [each.rejects(run_of(facts), large()) for each in tried] == [None] * len(tried)
    assert NoEpochGap().rejects(with_gaps(facts, 0.4), machine()) is None


def test_the_source_gets_arguments_and_workers_that_stay() -> None:
    edits = Workers(num_workers=3, prefetch_factor=4).edits(run_of(loader()))
    assert [type(edit).__name__ for edit in edits] == ["AddArgument", "AddArgument", "WrapArgument"]


def with_gaps(facts: LoaderFacts, gap_s: float) -> Run:
    run = run_of(facts)
    waits = list(run.phase_s[Phase.INPUT] or ())
    for start in (10, 60):
        waits[start] += gap_s
    return replace(run, epoch_starts=(10, 60), phase_s={**run.phase_s, Phase.INPUT: tuple(waits)})


def test_a_gap_is_worth_closing_and_bounded_by_its_length() -> None:
    run = with_gaps(replace(loader(), num_workers=2), 0.4)
    assert NoEpochGap().rejects(run, machine()) is None
    assert NoEpochGap().saves_at_most_s(run, ()) == pytest.approx(0.8 / 100, rel=0.01)


@pytest.mark.parametrize(
    ("facts", "gap_s", "reason"),
    [
        ({"num_workers": 0}, 0.4, "without workers"),
        ({"num_workers": 2, "persistent_workers": True}, 0.4, "keeps its workers already"),
        ({"num_workers": 2, "num_items": None}, 0.4, "iterable"),
        ({"num_workers": 2}, 0.001, "nothing to gain"),
    ],
)
def test_says_why_there_is_no_gap_to_close(facts: dict[str, Any], gap_s: float, reason: str) -> None:
    answer = NoEpochGap().rejects(with_gaps(replace(loader(), **facts), gap_s), machine())
    assert answer is not None and reason in answer
