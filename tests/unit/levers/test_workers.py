"""workers: when they apply, what is tried, what is written, and what it promises."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.levers import Numerics
from hotlap.levers.workers import Workers
from hotlap.record import LoaderFacts, Machine, Phase, Run
from hotlap.source import patch
from tests.conformance.recorded import run_of as recorded
from tests.sample_runs import loader, machine, run_with

HEAD = "from torch.utils.data import DataLoader\n"
LINE = "loader = DataLoader(data, 64, shuffle=True)"

RunOf = Callable[..., Run]


@pytest.fixture
def run_of(tmp_path: Path) -> RunOf:
    """The run of a script with this loader, and text around the line that makes it."""

    def make(
        facts: LoaderFacts, *, line: str = LINE, head: str = HEAD, tail: str = "", input_s: float = 0.0064,
        step_s: float = 0.0080,
    ) -> Run:  # fmt: skip
        path = tmp_path / "train.py"
        path.write_text(f"{head}{line}\n{tail}")
        seen = recorded(path)
        made = run_with(step_s=step_s, input_s=input_s)
        return replace(made, loaders=(facts,), call_sites=seen.call_sites, sources=seen.sources)

    return make


def large() -> Machine:
    return replace(machine(), usable_cores=16.0, num_cores=16)


def long() -> LoaderFacts:
    """Its epochs take minutes."""
    return replace(loader(), num_items=10**7)


def written(lever: Workers, run: Run) -> str:
    """The line that makes the loader, after the patch."""
    (path,) = run.sources
    text = patch(lever.edits(run), root=Path(path).parent).texts.get(path, Path(path).read_text())
    return next(line for line in text.splitlines() if line.lstrip().startswith("loader ="))


def test_as_many_as_keep_up_are_tried_first(run_of: RunOf) -> None:
    tried = Workers.candidates(run_of(loader()), large())
    assert tried[0].num_workers == 4  # 6.4 ms of making for 1.6 ms of training
    assert {each.num_workers for each in tried} == {4, 16, 8, 15}
    assert [each.prefetch_factor for each in tried].count(4) == 1


def test_never_more_than_the_cores(run_of: RunOf) -> None:
    half = replace(machine(), usable_cores=0.5)
    assert all(each.num_workers <= 2 for each in Workers.candidates(run_of(loader()), half))


@pytest.mark.parametrize(
    ("facts", "numerics"),
    [
        ({"deterministic": True}, Numerics.EXACT),
        ({"deterministic": False}, Numerics.STATISTICAL),
        ({"deterministic": None}, Numerics.STATISTICAL),
        ({"deterministic": True, "num_items": 1000}, Numerics.STATISTICAL),  # short epochs: workers that stay
    ],
)
def test_what_it_does_to_the_numbers_depends_on_items_and_epochs(
    facts: dict[str, Any], numerics: Numerics, run_of: RunOf
) -> None:
    run = run_of(replace(long(), **facts))
    assert {each.numerics for each in Workers.candidates(run, machine())} == {numerics}
    assert Workers.numerics is Numerics.STATISTICAL


def test_where_it_promises_equal_numbers_loaders_that_may_draw_keep_theirs(run_of: RunOf) -> None:
    run = run_of(replace(long(), deterministic=None))
    assert not Workers(draws=False).edits(run)
    assert Workers(draws=True).edits(run)


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
def test_says_why_workers_are_not_tried(facts: dict[str, Any], reason: str, run_of: RunOf) -> None:
    answer = Workers(num_workers=2).rejects(run_of(replace(loader(), **facts)), machine())
    assert answer is not None and reason in answer


def test_workers_themselves_count_against_the_memory(run_of: RunOf) -> None:
    small = replace(machine(), memory_limit_bytes=20 << 20)
    answer = Workers(num_workers=2).rejects(run_of(loader()), small)
    assert answer is not None and "Workers and batches on their way would take" in answer


HIDDEN = {
    "loader = DataLoader(data, **settings)": "num_workers may be in a ** argument",
    "loader = DataLoader(data, **{'num_workers': n, 'batch_size': 9})": "num_workers is in a ** argument",
    "loader = DataLoader(*given)": "by *,",
    "loader = DataLoader(data, 64, True, None, None, 0)": "more than 5 arguments by position",
    "loader = DataLoader(data, 64, in_order=False)": "(in_order)",
    "loader = DataLoader(data, **{'in_order': False})": "in_order is in a ** argument",
}


@pytest.mark.parametrize("line", HIDDEN)
def test_a_call_that_may_hide_its_arguments_is_left_alone(line: str, run_of: RunOf) -> None:
    run = run_of(loader(), line=line)
    answer = Workers(num_workers=2).rejects(run, machine())
    assert answer is not None and HIDDEN[line] in answer and answer.endswith(".")
    assert not Workers(num_workers=2).edits(run)


@pytest.mark.parametrize(
    "head", ["from geometric import DataLoader\n", f"{HEAD}class DataLoader(DataLoader): ...\n", "from x import *\n"]
)
def test_a_loader_of_another_class_is_left_alone(head: str, run_of: RunOf) -> None:
    answer = Workers(num_workers=2).rejects(run_of(loader(), head=head), machine())
    assert answer is not None and "is not the DataLoader of torch.utils.data" in answer


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_the_number_of_workers_is_tried_however_they_are_started(method: str, run_of: RunOf) -> None:
    run = run_of(replace(loader(), num_workers=2, start_method=method))
    tried = Workers.candidates(run, large())
    assert [each.rejects(run, large()) for each in tried] == [None] * len(tried)


@pytest.mark.parametrize(
    ("lever", "line", "after"),
    [
        (Workers(3), LINE, "loader = DataLoader(data, 64, shuffle=True, num_workers=3)"),
        (
            Workers(3, prefetch_factor=4, persistent_workers=True),
            LINE,
            "loader = DataLoader(data, 64, shuffle=True, num_workers=3, prefetch_factor=4, persistent_workers=True)",
        ),
        (
            Workers(3),
            "loader = DataLoader(data, num_workers=n, timeout=9, worker_init_fn=f, prefetch_factor=3)",
            "loader = DataLoader(data, num_workers=3, timeout=9, worker_init_fn=f, prefetch_factor=3)",
        ),
    ],
)
def test_the_source_gets_torchs_own_arguments(lever: Workers, line: str, after: str, run_of: RunOf) -> None:
    assert written(lever, run_of(replace(loader(), num_items=1000), line=line)) == after


# Workers that stay


def with_gaps(run: Run, gap_s: float) -> Run:
    waits = list(run.phase_s[Phase.INPUT] or ())
    for start in (10, 60):
        waits[start] += gap_s
    return replace(run, epoch_starts=(10, 60), phase_s={**run.phase_s, Phase.INPUT: tuple(waits)})


def test_the_scripts_own_workers_stay_where_their_start_is_waited_for(run_of: RunOf) -> None:
    run = with_gaps(run_of(replace(loader(), num_workers=2)), 0.4)
    first = Workers.candidates(run, large())[0]
    assert first == Workers(num_workers=2, persistent_workers=True, draws=False)
    assert first.rejects(run, large()) is None
    assert first.saves_at_most_s(run, ()) == pytest.approx(0.8 / 100, rel=0.01)
    assert written(first, run).endswith("num_workers=2, persistent_workers=True)")


@pytest.mark.parametrize(
    ("facts", "gap_s"),
    [
        ({"num_workers": 2, "persistent_workers": True}, 0.4),
        ({"num_workers": 2, "loader_anew": True}, 0.4),
        ({"num_workers": 2}, 0.001),
        ({"num_workers": 0, "num_items": 10**7}, 0.4),
    ],
)
def test_they_do_not_stay_where_that_gains_nothing(facts: dict[str, Any], gap_s: float, run_of: RunOf) -> None:
    run = with_gaps(run_of(replace(loader(), **facts)), gap_s)
    assert not any(each.persistent_workers for each in Workers.candidates(run, large()))


@pytest.mark.parametrize(
    "tail",
    [
        "for epoch in range(9):\n    data.set_epoch(epoch)\n",
        "data.labels[3] = 1\n",
        "data.scale = 2\n",
        "data.tensors[0].mul_(2)\n",
        "loader.dataset.scale += 1\n",
        "del data.cache\n",
    ],
)
def test_they_do_not_stay_where_the_script_changes_the_data_set(tail: str, run_of: RunOf) -> None:
    short = replace(loader(), num_items=1000)
    assert Workers.candidates(run_of(short), machine())[0].persistent_workers
    assert not Workers.candidates(run_of(short, tail=tail), machine())[0].persistent_workers


def test_they_do_not_stay_where_it_cannot_be_seen_which_data_set_they_read(run_of: RunOf) -> None:
    short, head = replace(loader(), num_items=1000), f"{HEAD}given = {{'dataset': data}}\n"
    assert Workers.candidates(run_of(short, head=head, line="loader = DataLoader(data)"), machine())[
        0
    ].persistent_workers
    run = run_of(short, head=head, line="loader = DataLoader(**given)")
    assert not Workers.candidates(run, machine())[0].persistent_workers


def test_reading_from_the_data_set_is_no_change(run_of: RunOf) -> None:
    run = run_of(replace(loader(), num_items=1000), tail="print(len(data), data.classes[0], loader.dataset)\n")
    assert Workers.candidates(run, machine())[0].persistent_workers


def test_an_iterable_data_set_is_left_alone(run_of: RunOf) -> None:
    run = run_of(replace(loader(), num_items=None, iterable=True, deterministic=None))
    why = Workers.candidates(run, large())[0].refuses(run, large())
    assert why == "Digits is an iterable data set: each worker would give all of it, or its own part of it."
