"""The report for a pull request: tables that hold, and foreign text that stays text."""

import dataclasses
import re

from hotlap.report import markdown
from tests import samples
from tests.sample_measured import study_measured


def rows(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("|")]


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    for study in (study_measured(), samples.study_full(), samples.study_hostile()):
        count = 0
        for line in markdown.render(study).split("\n"):
            if not line.startswith("|"):
                count = 0
                continue
            cells = len(re.findall(r"(?<!\\)\|", line))
            count = count or cells
            assert cells == count, line


def test_tells_findings_with_their_cost() -> None:
    text = markdown.render(study_measured())
    assert "| sync-bound | 3.10 ms, 28% of a step, at most 1.39x |" in text
    assert "at most 1.27x" in text
    assert "digits.py:51" in text


def test_foreign_text_is_no_markup_no_link_and_no_mention() -> None:
    study = dataclasses.replace(
        study_measured(), warnings=("@octocat see #12 and https://evil.example, www.evil.example <b>x</b> [a](b) `c`",)
    )
    text = markdown.render(study)
    assert "@<!-- -->octocat" in text
    assert "#<!-- -->12" in text
    assert "https://<!-- -->evil" in text
    assert "www.<!-- -->evil" in text
    assert "&lt;b&gt;" in text
    assert r"\[a\](b)" in text
    assert "<b>" not in text


def test_what_a_sentence_has_in_backticks_is_code_as_it_is() -> None:
    warning = "run `hotlap tune --levers a_b *x*`, not `` or ``a`b|c` <i>"
    text = markdown.render(dataclasses.replace(study_measured(), warnings=(warning,)))
    assert r"- run `hotlap tune --levers a_b *x*`, not \`\` or \`\`a\`b\|c\` &lt;i&gt;" in text.split("\n")


def test_a_hostile_patch_stays_in_its_fence() -> None:
    hostile = dataclasses.replace(samples.study_full(), patch="--- a\n+++ b\n@@ -1 +1 @@\n-```\n+`````\n")
    text = markdown.render(hostile)
    assert "\n``````diff\n" in text
    assert text.count("\n``````\n") == 1


def test_a_hostile_study_has_no_tag_of_its_own() -> None:
    text = markdown.render(samples.study_hostile())
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", text)
    outside = re.sub(r"`[^`\n]*`", "", outside)
    tags = set(re.findall(r"</?[a-zA-Z][^>]*>", outside))
    assert tags <= {"<details>", "<summary>", "</summary>", "</details>"}
