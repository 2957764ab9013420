"""What every report must do: show any study, and show it the same way twice."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import pytest

import hotlap.report
from hotlap.record import Study, decode, encode
from tests import sample_measured, samples

Render = Callable[[Study], str]


def reporters() -> dict[str, Render]:
    """Format -> its `render`: every module of hotlap.report that has one for a study."""
    found: dict[str, Render] = {}
    for module in pkgutil.iter_modules(hotlap.report.__path__):
        loaded = importlib.import_module(f"hotlap.report.{module.name}")
        # `machine` renders a checkup, which is another thing.
        if hasattr(loaded, "render") and "study" in inspect.signature(loaded.render).parameters:
            found[module.name] = loaded.render
    return found


STUDIES: dict[str, Callable[[], Study]] = {
    "empty": samples.study_empty,
    "crashed": samples.study_crashed,
    "full": samples.study_full,
    "interrupted": samples.study_interrupted,
    "without gain": samples.study_without_gain,
    "not finite": samples.study_not_finite,
    "hostile": samples.study_hostile,
    "measured": sample_measured.study_measured,
    "long": sample_measured.study_long,
}

every_report = pytest.mark.parametrize("name", reporters())
every_study = pytest.mark.parametrize("study", STUDIES)

# What a terminal or a page could act upon; tabs and line ends are text.
CONTROL = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n", "\t"}


def test_there_are_reports() -> None:
    assert {"terminal", "html", "markdown"} <= set(reporters())


@every_report
@every_study
def test_shows_the_study_in_the_same_way_each_time(name: str, study: str) -> None:
    text = reporters()[name](STUDIES[study]())
    assert text.strip()
    assert reporters()[name](STUDIES[study]()) == text


@every_report
@every_study
def test_a_study_from_disk_is_shown_as_the_one_in_memory(name: str, study: str) -> None:
    there = STUDIES[study]()
    back = decode(encode(there), Study)
    assert reporters()[name](back) == reporters()[name](there)


@every_report
@every_study
def test_no_control_character_gets_through(name: str, study: str) -> None:
    assert not CONTROL & set(reporters()[name](STUDIES[study]()))


@every_report
def test_numbers_of_the_study_are_in_it(name: str) -> None:
    text = reporters()[name](samples.study_full())
    assert "4.87x" in text
    assert "UNHARMED" in text.upper()
    assert "cached-dataset" in text


@every_report
def test_what_a_crashed_script_said_is_shown(name: str) -> None:
    text = reporters()[name](samples.study_crashed())
    assert "Expected input batch_size (64) to match target batch_size (32)." in text


@every_report
def test_a_study_without_trials_says_nothing_of_trials(name: str) -> None:
    text = reporters()[name](sample_measured.study_measured())
    assert "sync-bound" in text
    assert "Trials" not in text
    assert "Gate" not in text
    assert "hotlap apply" not in text


@every_report
def test_harm_is_never_shown_as_none(name: str) -> None:
    text = reporters()[name](samples.study_not_finite())
    assert "HARMED" in text.upper().replace("UNHARMED", "")
