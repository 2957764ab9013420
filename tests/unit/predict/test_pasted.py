"""The pages of `hotlap predict` show the results and the catalogue that are there."""

from types import ModuleType

import pytest

from tests.benchmark_files import benchmark


@pytest.fixture(scope="module")
def paste() -> ModuleType:
    return benchmark("predict/paste.py")


def test_the_tables_are_those_of_the_results_also_where_a_gpu_measured_none_of_the_trainings(paste: ModuleType) -> None:
    text = paste.PAGE.read_text()
    assert paste.page(text) == text


def test_every_figure_of_the_catalogue_is_on_its_page(paste: ModuleType) -> None:
    assert paste.figures() == paste.FIGURES.read_text()
