"""Quantities, ratios and how they read, on a terminal too."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hotlap import lab
from hotlap.errors import UserError
from hotlap.lab import EXPERIMENTS, asks, file_of
from hotlap.lab.result import LEGEND, Quantity, Result, Table, ahead_from, in_words, sections
from hotlap.record import Interval
from hotlap.report.terminal import plain
from tests.samples import HOSTILE, study_full

THERE = Quantity(value=1e-5, low=5e-6, high=2e-5, predicted=True)


def test_a_ratio_in_words_says_where_nothing_was_shown() -> None:
    assert in_words(None) == "not compared often enough for a ratio"
    assert in_words(Interval(low=1.8, mid=2.0, high=2.2)) == "2.00x as fast, 95% interval 1.80x to 2.20x"
    assert in_words(Interval(low=0.5, mid=2.65, high=19.7)).startswith("no difference shown: 2.65x")
    assert in_words(Interval(low=0.6, mid=0.7, high=0.8)).startswith("slower: 0.70x")


def test_who_is_ahead_is_so_by_the_intervals_and_at_all_larger_sizes() -> None:
    def of(*ends: tuple[float, float]) -> list[Quantity]:
        return [Quantity(value=(low + high) / 2, low=low, high=high) for low, high in ends]

    slow = of((9, 11), (9, 11), (9, 11), (9, 11))
    assert ahead_from([1, 2, 4, 8], slow, of((1, 2), (8, 10), (1, 2), (1, 2))) == 4
    assert ahead_from([1, 2, 4, 8], slow, of((1, 2), (1, 2), (1, 2), (1, 2))) == 1
    assert ahead_from([1, 2, 4, 8], slow, of((1, 2), (1, 2), (1, 2), (8, 10))) is None


def test_many_steps_keep_their_interval_and_their_mark() -> None:
    many = THERE.times(10)
    assert (many.value, many.low, many.high, many.predicted) == pytest.approx((1e-4, 5e-5, 2e-4, True))


def test_quantities_read_in_their_unit_and_predictions_are_marked() -> None:
    assert str(THERE) == "~10.0 us (5.00 to 20.0 us)"
    assert str(Quantity(value=math.nan)) == "unknown"


def rendered(result: Result) -> str:
    return plain(sections(result))


def test_a_result_is_shown_with_its_tables_its_story_and_a_legend_where_something_is_predicted() -> None:
    table = Table(
        title="All", columns=("way", "time"), rows=(("here", Quantity(value=0.25)), ("there", THERE), ("gone", None))
    )
    text = rendered(Result(name="transfer", asks="A trip?", story=("It took long.",), tables=(table,), quick=True))
    assert text.startswith("hotlap lab transfer --quick  A trip?\n")
    assert "250 ms" in text and "~10.0 us (5.00 to 20.0 us)" in text and "It took long." in text
    assert " ".join(text.split()).count(LEGEND) == 1
    assert LEGEND not in " ".join(rendered(Result(story=(), tables=(replace(table, rows=table.rows[:1]),))).split())


def test_hostile_strings_are_only_text() -> None:
    table = Table(title=HOSTILE, columns=(HOSTILE,), rows=((HOSTILE,),), note=HOSTILE)
    text = rendered(Result(name=HOSTILE, asks=HOSTILE, story=(HOSTILE,), tables=(table,), notes=(HOSTILE,)))
    assert "\x1b" not in text and "\u202e" not in text


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"no experiment 'warp'.*transfer, launch-floor, pinning"):
        file_of("warp")


def test_each_experiment_is_a_file_of_its_name_that_says_what_it_asks() -> None:
    for one in EXPERIMENTS:
        assert callable(file_of(one).run)
        assert asks(one).endswith("?")


@pytest.mark.parametrize("takes", [("budget",), ("script",)])
def test_only_a_script_of_the_users_own_can_be_tuned_afterwards(
    takes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lab's own is a copy in a folder that is gone by then."""
    study = study_full()
    assert any(one.try_levers for one in study.findings)
    file = SimpleNamespace(TAKES=takes, run=lambda *_: Result(story=("",), study=study), __doc__="pinning: what?")
    monkeypatch.setattr("hotlap.lab.file_of", lambda _: file)
    told = plain(sections(lab.run("pinning", lab.Settings(), print)))
    assert ("hotlap tune --levers" in told) == ("script" in takes)
