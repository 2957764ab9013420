"""Reports as they were when somebody last looked at them; `pytest tests/golden --regen` takes the new ones for good."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.record import Study
from hotlap.report import html, markdown, terminal
from tests import sample_measured, samples

FOLDER = Path(__file__).parent / "reports"
STUDIES: dict[str, Callable[[], Study]] = {
    "empty": samples.study_empty,
    "crashed": samples.study_crashed,
    "full": samples.study_full,
    "interrupted": samples.study_interrupted,
    "not_finite": samples.study_not_finite,
    "without_gain": samples.study_without_gain,
    "measured": sample_measured.study_measured,
    "long": sample_measured.study_long,
}
# The style sheet stands in a file of its own, and is the same in all.
_STYLE = re.compile("<style>.*?</style>", re.DOTALL)
FORMATS: dict[str, Callable[[Study], str]] = {
    "txt": terminal.render,
    "html": lambda study: _STYLE.sub("<style></style>", html.render(study)),
    "md": markdown.render,
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("name", STUDIES)
def test_looks_as_it_did(name: str, suffix: str, regen: bool) -> None:
    compare(FOLDER / f"{name}.{suffix}", FORMATS[suffix](STUDIES[name]()), regen=regen)


def compare(path: Path, shown: str, *, regen: bool) -> None:
    if regen:
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert path.exists(), "there is no snapshot of this yet: run pytest tests/golden --regen and look at it"
    assert shown == path.read_text(encoding="utf-8")
