"""The page in a real browser: drawn, silent, asking for nothing, and deaf to what a study may hold."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotlap.record import Study
from hotlap.report import html
from tests import sample_measured, samples
from tests.browser.chromium import BINARY, Browser, browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BINARY is None, reason="no chromium on the PATH (apt-get install chromium)"),
]

STUDIES: dict[str, Callable[[], Study]] = {
    "empty": samples.study_empty,
    "crashed": samples.study_crashed,
    "full": samples.study_full,
    "not_finite": samples.study_not_finite,
    "hostile": samples.study_hostile,
    "measured": sample_measured.study_measured,
    "long": sample_measured.study_long,
}


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def show(chromium: Browser, study: Study, folder: Path) -> str:
    """Open the page of `study`; its address."""
    path = folder / "report.html"
    path.write_text(html.render(study), encoding="utf-8")
    chromium.open(path)
    return path.as_uri()


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (1100, "dark"), (360, "light")])
def test_is_silent_and_fits(chromium: Browser, tmp_path: Path, name: str, width: int, scheme: str) -> None:
    chromium.look(width=width, scheme=scheme)
    address = show(chromium, STUDIES[name](), tmp_path)
    assert chromium.value("document.querySelector('h1').getBoundingClientRect().height") > 20
    assert chromium.value("document.documentElement.scrollWidth <= window.innerWidth")
    assert chromium.requests() == [address]
    assert chromium.complaints() == []


@pytest.mark.parametrize("width", [1100, 360])
def test_every_chart_is_drawn(chromium: Browser, tmp_path: Path, width: int) -> None:
    chromium.look(width=width, scheme="light")
    show(chromium, samples.study_full(), tmp_path)
    sizes = chromium.value(
        "[...document.querySelectorAll('svg[class^=chart]')].map(s => {"
        "const box = s.getBoundingClientRect(), marks = [...s.querySelectorAll('rect')].filter(m => {"
        "const b = m.getBoundingClientRect(); return b.width > 0 && b.height > 0 });"
        "return [s.getAttribute('class'), box.width, box.height, marks.length] })"
    )
    names = [name for name, *_ in sizes]
    assert {"chart-lanes", "chart-phase"} == set(names)
    assert names.count("chart-lanes") == 2
    for name, chart_width, height, num_marks in sizes:
        assert chart_width > 100, name
        assert height > 10, name
        assert num_marks > 0, name


def test_an_interval_is_not_broken_at_its_hyphen(chromium: Browser, tmp_path: Path) -> None:
    for width in (1100, 360):
        chromium.look(width=width, scheme="light")
        show(chromium, samples.study_full(), tmp_path)
        heights = chromium.value(
            "[...document.querySelectorAll('.trials .numbers b, .commands .code')]"
            ".map(b => b.getClientRects().length && b.clientHeight || b.getBoundingClientRect().height)"
        )
        assert len(heights) > 5
        assert max(heights) < 2 * min(heights), (width, heights)


def test_what_is_not_on_the_screen_is_laid_out_when_it_comes_there(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    study = samples.study_full()
    show(chromium, replace(study, trials=study.trials * 50), tmp_path)
    last = "document.querySelector('.trials > li:last-child')"
    seen = f"{last}.checkVisibility({{contentVisibilityAuto: true}})"
    assert not chromium.value(seen)
    chromium.value(f"{last}.scrollIntoView()")
    assert chromium.value(f"new Promise(done => requestAnimationFrame(() => setTimeout(() => done({seen}))))")


def test_lanes_can_be_zoomed_without_a_script_and_scroll_in_their_own_room(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    show(chromium, sample_measured.study_measured(), tmp_path)
    width = "document.querySelector('.chart-lanes').getBoundingClientRect().width"
    plain = chromium.value(width)
    chromium.value("document.querySelector('label[for=zoom-8]').click()")
    assert chromium.value(width) > 6 * plain
    assert chromium.value("document.documentElement.scrollWidth <= window.innerWidth")
    assert chromium.value("document.querySelector('.scroll').scrollWidth > 6 * window.innerWidth")
    names = "[...document.querySelectorAll('.names span')].map(s => s.innerText)"
    assert chromium.value(names) == ["loader", "host"]


def test_idle_lanes_show_their_gaps(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    show(chromium, sample_measured.study_measured(), tmp_path)
    floors, blocks = chromium.value(
        "(() => { const s = document.querySelector('.chart-lanes'), of = (q) => [...s.querySelectorAll(q)];"
        "return [of('.floor').length, of('.p-transfer').reduce((w, r) => w + r.getBoundingClientRect().width, 0)"
        " / s.getBoundingClientRect().width] })()"
    )
    assert floors == 2
    assert 0.05 < blocks < 0.2


def test_more_steps_fit_into_the_same_time(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    show(chromium, samples.study_full(), tmp_path)
    counts = chromium.value(
        "[...document.querySelectorAll('.chart-lanes')].map(s => s.querySelectorAll('.step-end').length)"
    )
    assert counts == [4, 24]


def test_dark_and_light_differ_and_both_can_be_read(chromium: Browser, tmp_path: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        chromium.look(width=1100, scheme=scheme)
        show(chromium, samples.study_full(), tmp_path)
        paper, ink = chromium.value(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        colours.append((paper, ink))
        assert abs(_brightness(paper) - _brightness(ink)) > 150
    assert colours[0] != colours[1]


def test_hostile_strings_are_only_text(chromium: Browser, tmp_path: Path) -> None:
    chromium.look(width=1100, scheme="light")
    show(chromium, samples.study_hostile(), tmp_path)
    assert chromium.value("typeof window.hurt") == "undefined"
    assert chromium.value("document.querySelectorAll('script, img, [onload], [onerror], [onmouseover]').length") == 0
    text = chromium.value("document.body.innerText")
    assert "<script>window.hurt=1</script>" in text
    assert "{{7*7}}" in text
    assert "49" not in chromium.value("document.title")
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_script_in_the_page_would_be_refused(chromium: Browser, tmp_path: Path) -> None:
    """The second wall: even if a text got through as markup, the policy stops it, and the console would tell."""
    path = tmp_path / "report.html"
    page = html.render(samples.study_full())
    path.write_text(page.replace("</main>", "<script>window.hurt=1</script><img src=x onerror=window.hurt=2></main>"))
    chromium.open(path)
    assert chromium.value("typeof window.hurt") == "undefined"
    assert chromium.complaints() != []


def _brightness(colour: str) -> float:
    """Mean of red, green and blue of "rgb(1, 2, 3)"."""
    red, green, blue = (float(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return (red + green + blue) / 3
