"""Texts of a record become safe to show."""

import pytest

from hotlap.report.clean import clean, clean_line, last_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 100%", "plain text, 100%"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;new title\x07after", "after"),
        ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jafter", "after"),
        ("\x1bP+q544e\x1b\\after", "after"),
        ("\x1bcafter", "after"),
        ("a\x00b\x07c\x08d\x7fe", "abcde"),
        ("\u202egnp.exe\u202c", "gnp.exe"),
        ("file\udcff.py", "file.py"),
        ("gr\u00fc\u00df \u4f60\u597d", "gr\u00fc\u00df \u4f60\u597d"),
        ("one\r\ntwo\tthree", "one\ntwo\tthree"),
    ],
)
def test_takes_control_characters_and_escape_sequences_away_whole(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_an_open_escape_string_does_not_swallow_the_next_line() -> None:
    assert clean("\x1b]0;title without an end\nthe next line") == "\nthe next line"


def test_what_is_left_of_a_nested_escape_cannot_form_a_new_one() -> None:
    assert "\x1b" not in clean("\x1b\x1b[31m[31mred")


def test_makes_one_line_of_many() -> None:
    assert clean_line("  one\r\n\ttwo \n three ") == "one two three"


def test_keeps_the_last_lines_and_of_a_progress_bar_its_last_state() -> None:
    printed = "first\n" + "\r".join(f"step {i}" for i in range(1000)) + "\nlast\n\n"
    assert last_lines(printed, 2) == "step 999\nlast"
    assert last_lines("", 5) == ""
