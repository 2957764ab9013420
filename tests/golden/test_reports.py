"""Reports as they were when somebody last looked at them; `pytest tests/golden --regen` takes the new ones for good."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.record import Study
from hotlap.report import html, terminal
from tests import samples

FOLDER = Path(__file__).parent / "reports"
STUDIES: dict[str, Callable[[], Study]] = {
    "empty": samples.study_empty,
    "crashed": samples.study_crashed,
    "full": samples.study_full,
    "interrupted": samples.study_interrupted,
    "not_finite": samples.study_not_finite,
    "without_gain": samples.study_without_gain,
}
FORMATS: dict[str, Callable[[Study], str]] = {"txt": terminal.render, "html": html.render}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", STUDIES)
def test_looks_as_it_did(name: str, suffix: str, regen: bool) -> None:
    path = FOLDER / f"{name}.{suffix}"
    shown = FORMATS[suffix](STUDIES[name]())
    if regen:
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert path.exists(), "there is no snapshot of this yet: run pytest tests/golden --regen and look at it"
    assert shown == path.read_text(encoding="utf-8")
