"""The lab's pages in a real browser: drawn, silent, asking for nothing, and deaf to what their strings hold."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotlap.lab import launch_floor, page, transfer
from hotlap.lab.result import Result
from hotlap.lab.settings import Settings
from tests.browser.chromium import BINARY, Browser, browser
from tests.unit.lab import samples

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BINARY is None, reason="no chromium on the PATH (apt-get install chromium)"),
]

RESULTS: dict[str, Callable[[], Result]] = {
    "full": samples.result_full,
    "hostile": samples.result_hostile,
    "empty": lambda: Result(name="transfer", title="Nothing", story=(), tables=()),
    "transfer": lambda: transfer.tell(transfer.SIDES, samples.transfer_answer(), Settings()),
    "launch-floor": lambda: launch_floor.tell(launch_floor.SIDES, samples.floor_answer(), Settings()),
}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def show(chromium: Browser, result: Result, folder: Path) -> str:
    """Open its page; the address."""
    path = folder / "lab.html"
    path.write_text(page.render(result), encoding="utf-8")
    chromium.open(path)
    return path.as_uri()


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (360, "dark")])
def test_is_silent_and_fits(chromium: Browser, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    chromium.look(width=width, scheme=scheme)
    address = show(chromium, RESULTS[name](), tmp_path)
    assert chromium.value("document.querySelector('h1').getBoundingClientRect().height") > 20
    assert chromium.value("document.documentElement.scrollWidth <= window.innerWidth")
    assert chromium.requests() == [address]
    assert chromium.complaints() == []


def test_every_picture_is_drawn(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    show(chromium, samples.result_full(), tmp_path)
    lines = chromium.value(
        "[...document.querySelectorAll('.chart-curves polyline')].map(l => {"
        "const box = l.getBoundingClientRect(); return [box.width, box.height, getComputedStyle(l).stroke] })"
    )
    assert len(lines) == 2
    for width, height, stroke in lines:
        assert width > 400
        assert height > 5
        assert stroke != "none"
    assert len({stroke for *_, stroke in lines}) == 2
    bars = chromium.value(
        "[...document.querySelectorAll('.chart-bars rect')].map(r => r.getBoundingClientRect().width)"
    )
    assert bars[0] > 100 > bars[1]
    assert chromium.value("document.querySelectorAll('.chart-lanes').length") == 2
    assert chromium.value("getComputedStyle(document.querySelector('polyline.predicted')).strokeDasharray") != "none"


def test_hostile_strings_are_only_text(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    show(chromium, samples.result_hostile(), tmp_path)
    assert chromium.value("typeof window.hurt") == "undefined"
    assert chromium.value("document.querySelectorAll('script, img, [onload], [onerror], [onmouseover]').length") == 0
    text = chromium.value("document.body.innerText")
    assert "<script>window.hurt=1</script>" in text
    assert "{{7*7}}" in text
    assert "\u202e" not in text
