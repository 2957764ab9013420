"""The ten scripts of the track: each has an expert, and every recipe still fits its script."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TRACK = Path(__file__).resolve().parents[2] / "benchmarks" / "track"


def recipes() -> ModuleType:
    spec = importlib.util.spec_from_file_location("track_recipes", TRACK / "recipes.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


RECIPES = recipes()
CASES = [(name, recipe) for name, edits in RECIPES.RECIPES.items() for recipe in edits]


@pytest.mark.parametrize(("name", "recipe"), CASES)
def test_a_recipe_fits_its_script(name: str, recipe: str) -> None:
    text = RECIPES.script(name, recipe)
    compile(text, f"{name}/{recipe}.py", "exec")
    assert text != (TRACK / name / "train.py").read_text(encoding="utf-8")


def test_an_edit_that_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES.RECIPES, "digits", {"other": (("no such line", ""),)})
    with pytest.raises(ValueError, match="0 times 'no such line'"):
        RECIPES.script("digits", "other")


def test_every_script_has_an_expert_and_is_told_of() -> None:
    folders = {path.parent.name for path in TRACK.glob("*/train.py")}
    assert folders == set(RECIPES.RECIPES)
    assert all((TRACK / name / "expert.py").is_file() for name in folders)
