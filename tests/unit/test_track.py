"""The ten scripts of the track: each has an expert, and every recipe still fits its script."""

import pytest

from tests.benchmark_files import BENCHMARKS, benchmark

TRACK = BENCHMARKS / "track"
RECIPES = benchmark("track/recipes.py")
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
