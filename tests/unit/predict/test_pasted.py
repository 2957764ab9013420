"""The pages of `hotlap predict` show the results and the catalogue that are there."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "predict" / "paste.py"


@pytest.fixture(scope="module")
def paste() -> ModuleType:
    spec = importlib.util.spec_from_file_location("predict_paste", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_results_also_where_a_gpu_measured_none_of_the_trainings(paste: ModuleType) -> None:
    text = paste.PAGE.read_text()
    assert paste.page(text) == text


def test_every_figure_of_the_catalogue_is_on_its_page(paste: ModuleType) -> None:
    assert paste.figures() == paste.FIGURES.read_text()
