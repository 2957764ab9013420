"""A file beside the script that has the name of a module of Python's: both have their own."""

import importlib
import sys
from pathlib import Path

import pytest

from hotlap.probe import own_imports
from hotlap.probe.own_imports import OwnImports

NAME = "statistics"


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script's folder, with such a file; nobody has imported the name so far."""
    (tmp_path / f"{NAME}.py").write_text("MINE = True")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(own_imports, "_ours", {})
    monkeypatch.setitem(sys.modules, NAME, importlib.import_module(NAME))
    del sys.modules[NAME]
    return tmp_path


def imported() -> object:
    return importlib.import_module(NAME)


def test_what_hotlap_has_imported_first_is_not_what_the_script_gets(beside: Path) -> None:
    with OwnImports():
        ours = imported()
    theirs = imported()
    assert hasattr(ours, "median") and hasattr(theirs, "MINE")
    with OwnImports():
        assert imported() is ours
    assert imported() is theirs


def test_what_the_script_has_imported_first_is_not_what_hotlap_gets(beside: Path) -> None:
    theirs, path = imported(), list(sys.path)
    assert hasattr(theirs, "MINE")
    with OwnImports():
        assert hasattr(imported(), "median")
    assert imported() is theirs
    assert sys.path == path


def test_all_else_that_hotlap_imports_stays(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with OwnImports():
        import colorsys
    assert sys.modules["colorsys"] is colorsys
