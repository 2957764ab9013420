"""A result as a page, as text and as JSON: complete, marked, and deaf to what its strings hold."""

import json
import re
from dataclasses import replace
from pathlib import Path

from hotlap.lab import page, terminal, words
from hotlap.lab.result import Result
from hotlap.record import encode
from tests.unit.lab import samples


def test_the_page_holds_story_tables_and_pictures() -> None:
    text = page.render(samples.result_full())
    for part in (
        "What a trip costs",
        "Then it was fast.",
        "As the article has it.",
        "There is no GPU here.",
        "Some CPU",
    ):
        assert part in text
    assert text.count("chart-curves") >= 1
    assert text.count('class="chart-lanes"') == 2
    assert "<polygon" in text  # the band of what is predicted


def test_what_is_predicted_is_marked_in_page_and_text() -> None:
    for text in (page.render(samples.result_full()), terminal.render(samples.result_full())):
        assert "~10.0 us (5.00 us to 20.0 us)" in " ".join(text.split())
        assert "predicted, not measured" in text


def test_a_result_without_predictions_has_no_legend() -> None:
    full = samples.result_full()
    plain = replace(full, tables=(replace(full.tables[0], rows=full.tables[0].rows[:1]),), pictures=())
    for text in (page.render(plain), terminal.render(plain)):
        assert words.LEGEND[:20] not in text


def test_the_policy_forbids_scripts_and_the_network() -> None:
    text = page.render(samples.result_full())
    assert re.search(r"Content-Security-Policy\" content=\"default-src 'none'.*script-src 'none'", text)
    assert not re.search(r"(src|href)=", text)


def test_hostile_strings_are_only_text_on_the_page() -> None:
    text = page.render(samples.result_hostile())
    for tag in ("<script", "<img", "<svg onload", "</style></title>"):
        assert tag not in text
    assert "{{7*7}}" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_hostile_strings_send_nothing_to_the_terminal() -> None:
    text = terminal.render(samples.result_hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_an_empty_result_renders() -> None:
    empty = Result(name="transfer", title="", story=(), tables=())
    assert "<h1" in page.render(empty)
    assert "hotlap lab transfer" in terminal.render(empty)


def test_the_text_is_no_wider_than_it_says() -> None:
    assert max(map(len, terminal.render(samples.result_full()).splitlines())) <= terminal.WIDTH


def test_the_json_holds_numbers_in_si_with_their_intervals() -> None:
    told = json.loads(encode(samples.result_full()))
    cell = told["tables"][0]["rows"][1][1]
    assert cell == {"value": 1e-5, "unit": "s", "low": 5e-6, "high": 2e-5, "predicted": True}
    assert told["schema"] == 1
    assert told["name"] == "transfer"


def test_the_page_needs_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(page.render(samples.result_full()), encoding="utf-8")
    assert "url(http" not in path.read_text(encoding="utf-8")
