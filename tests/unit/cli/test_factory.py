"""What `hotlap data pack` is told to pack: found as Python would find it, or a clear sentence."""

import sys
from pathlib import Path

import pytest

from hotlap.cli.factory import dataset_of
from hotlap.errors import ScriptFailed, UserError

SOURCE = """
import sys

SEEN = list(sys.argv)

def numbers(count=3, name="x", step=None):
    return [(i, name, step) for i in range(count)]

class Numbers(list):
    def __init__(self, count=2):
        super().__init__(range(count))

class Factories:
    @staticmethod
    def inner():
        return [7]

ready = Numbers(4)

def broken():
    raise RuntimeError("no such folder")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    for name in ("some_numbers", "lacking"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("some_numbers.py").write_text(SOURCE)
    Path("lacking.py").write_text("import no_such_module_anywhere\n")


@pytest.mark.parametrize("place", ["some_numbers", "some_numbers.py", "./some_numbers.py"])
def test_a_callable_of_a_module_or_a_file_is_called(place: str) -> None:
    assert dataset_of(f"{place}:numbers", []) == [(0, "x", None), (1, "x", None), (2, "x", None)]
    assert dataset_of(f"{place}:Factories.inner", []) == [7]


def test_arguments_are_json_or_else_text() -> None:
    found = dataset_of("some_numbers.py:numbers", ["count=1", "name=a=b", 'step={"x": [1.5]}'])
    assert found == [(0, "a=b", {"x": [1.5]})]


def test_a_class_is_called_and_a_data_set_is_taken_as_it_is() -> None:
    assert dataset_of("some_numbers.py:Numbers", ["count=5"]) == [0, 1, 2, 3, 4]
    assert dataset_of("some_numbers.py:ready", []) == [0, 1, 2, 3]
    with pytest.raises(UserError, match="is a data set already"):
        dataset_of("some_numbers.py:ready", ["count=1"])


def test_the_module_sees_none_of_our_words() -> None:
    assert dataset_of("some_numbers.py:SEEN", []) == ["some_numbers.py"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("some_numbers.py", [], "does not name a data set"),
        ("some_numbers.py:", [], "does not name a data set"),
        ("some_numbers.py:nothing", [], "has no nothing"),
        ("absent.py:numbers", [], "There is no file absent.py"),
        ("absent:numbers", [], "There is no module absent here"),
        ("some_numbers.py:numbers", ["count"], "is not NAME=VALUE"),
        ("some_numbers.py:numbers", ["a-b=1"], "is not NAME=VALUE"),
    ],
)
def test_what_is_not_there_is_said(name: str, arguments: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        dataset_of(name, arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("some_numbers.py:broken", [], "RuntimeError: no such folder"),
        ("some_numbers.py:numbers", ["colour=red"], "colour"),
        ("lacking:numbers", [], "no_such_module_anywhere"),
    ],
)
def test_an_error_of_the_script_is_shown_as_its_own(name: str, arguments: list[str], said: str) -> None:
    with pytest.raises(ScriptFailed, match="gave no data set") as failed:
        dataset_of(name, arguments)
    assert said in failed.value.output
