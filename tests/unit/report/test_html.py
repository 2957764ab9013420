"""The report as a page: what can be seen without a browser (`tests/browser` opens it in one)."""

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from hotlap.record import Phase, Run, Study, Trial
from hotlap.report import html
from tests import samples


class Page(HTMLParser):
    """Names of tags, attributes and all text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.words += data


def test_asks_for_nothing_and_runs_nothing() -> None:
    source = html.render(samples.study_full())
    page = Page(source)
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & set(page.tags)
    assert {value for name, value in page.attributes if name in {"src", "href"}} == {"data:,"}
    assert "default-src 'none'" in source
    assert not re.search(r"@import|url\((?!#)", source)


def test_tells_what_the_terminal_tells() -> None:
    words = " ".join(Page(html.render(samples.study_full())).words.split())
    for part in (
        "3.11x as fast",
        "steps of the baseline ended, and 24 when optimized",
        "at most 4.31x",
        "with and without cached-dataset",
        "no timing: the run took longer than it was given (60 s)",
        "gains below 1.034x cannot be told from noise here",
        "no other seed was tried",
        "+from hotlap.data import cached",
        "hotlap apply --revert",
        "Another process used 30% of a core",
        "Intel(R) Xeon(R) Platinum 8481C",
    ):
        assert part in words


def test_losses_that_are_not_finite_are_told() -> None:
    words = " ".join(Page(html.render(samples.study_not_finite())).words.split())
    assert "21 losses are not finite" in words
    assert "Do not apply this" in words


def test_a_crashed_study_shows_the_traceback_and_no_empty_sections() -> None:
    words = Page(html.render(samples.study_crashed())).words
    assert "ValueError: Expected input batch_size" in words
    assert "Upper bounds" not in words


def test_a_stretch_of_real_steps_says_that_validations_stand_there_too() -> None:
    (run,) = samples.study_full().baseline
    for number, told in ((0, False), (3, True)):
        study = dataclasses.replace(samples.study_full(), baseline=(dataclasses.replace(run, num_validations=number),))
        assert ("What came between them (a validation)" in html.render(dataclasses.replace(study, after=None))) is told


def test_a_trial_of_two_processes_was_not_asked_about_training() -> None:
    seen = Trial(levers=({"name": "threads"},), log_ratios=(0.1, 0.2))
    source = html.render(dataclasses.replace(samples.study_full(), trials=(seen,)))
    assert "gate: not asked" in source


def test_training_that_was_compared_and_not_decided_is_inconclusive() -> None:
    full = samples.study_full()
    judged = Trial(levers=({"name": "threads"},), log_ratios=(0.1, 0.2), runs=full.baseline, why="Too few runs.")
    assert "gate: inconclusive" in html.render(dataclasses.replace(full, trials=(judged,)))


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Study)])
def test_any_part_may_be_missing(field: str) -> None:
    empty, full = samples.study_empty(), samples.study_full()
    assert html.render(dataclasses.replace(full, **{field: getattr(empty, field)}))
    assert html.render(dataclasses.replace(empty, **{field: getattr(full, field)}))


def test_a_hostile_study_adds_no_tag_no_attribute_and_no_control_character() -> None:
    source = html.render(samples.study_hostile())
    hostile, tame = Page(source), Page(html.render(samples.study_not_finite()))
    assert set(hostile.tags) == set(tame.tags)
    assert {name for name, _ in hostile.attributes} == {name for name, _ in tame.attributes}
    assert "{{7*7}}" in hostile.words
    assert all(char in "\n\t" or char.isprintable() for char in source)
    assert source.count("</style>") == 1


def test_code_in_a_sentence_is_code_and_no_line_ends_within_an_option() -> None:
    hostile = "raise --total-steps <b> & see `hotlap levers --x` ` alone"
    source = html.render(dataclasses.replace(samples.study_full(), warnings=(hostile,)))
    told = source.split('<section id="warnings">')[1].split("</section>")[0]
    assert 'raise <span class="option">--total-steps</span> &lt;b&gt; &amp; see <code>hotlap levers ' in told
    assert "` alone" in told


def bars(before: Run, after: Run) -> dict[str, list[tuple[str, str]]]:
    """Phase -> (width, words) of its bars, before and after."""
    study = dataclasses.replace(samples.study_full(), baseline=(before,), beside=None, after=after)
    source = html.render(study).split('<ul class="bars">')[1].split("</ul>")[0]
    found = {}
    for one in source.split("<li>")[1:]:
        widths = re.findall(r'width="([\d.]+)%"', one)
        found[one[6 : one.index("</span>")]] = list(zip(widths, re.findall("</span>([^<]+)</span>", one), strict=True))
    return found


def test_phase_bars_of_both_sides_have_one_scale() -> None:
    before = samples.run_with(phases={Phase.INPUT: 0.004, Phase.FORWARD: 0.001})
    after = samples.run_with(phases={Phase.INPUT: 0.001, Phase.FORWARD: 0.001})
    assert bars(before, after)["input"] == [("100.0", "4.00 ms (80%)"), ("25.0", "1.00 ms (50%)")]


def test_a_phase_that_one_run_did_not_see_has_no_bar_there_and_says_so() -> None:
    seen = samples.run_with(phases={Phase.SYNC: 0.001})
    unseen = dataclasses.replace(seen, phase_s={**seen.phase_s, Phase.SYNC: None})
    assert bars(unseen, seen)["sync"][0] == ("0.0", "not measured")
    some = dataclasses.replace(unseen, phase_s={**unseen.phase_s, Phase.OTHER: seen.phase_s[Phase.SYNC]})
    assert list(bars(some, some)) == ["other"], "a line below says that"


def test_tells_the_lines_of_a_patch_apart() -> None:
    source = html.render(samples.study_full())
    kinds = re.findall(r'<span class="(file|hunk|added|removed|same)">', source)
    assert kinds[:4] == ["file", "file", "hunk", "same"]
    assert (kinds.count("added"), kinds.count("removed")) == (5, 2)
