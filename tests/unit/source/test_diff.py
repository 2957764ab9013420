"""Diffs are applied strictly: to exactly the text that they were made from, or not at all."""

from pathlib import Path

import pytest

from hotlap.errors import UserError
from hotlap.source import diff

OLD = "".join(f"line {number}\n" for number in range(30))
NEW = OLD.replace("line 3\n", "").replace("line 20\n", "line 20\nand a half\n")


def test_applies_several_hunks() -> None:
    (file,) = diff.parse(diff.unified(OLD, NEW, label="a b.py"))
    assert len(file.hunks) == 2
    assert file.label == "a b.py"
    assert file.apply(OLD) == NEW


@pytest.mark.parametrize("text", [NEW, "", OLD.replace("line 20", "line XX"), "new first line\n" + OLD, OLD[:90]])
def test_does_not_fit_another_text(text: str) -> None:
    (file,) = diff.parse(diff.unified(OLD, NEW, label="x.py"))
    with pytest.raises(UserError, match="does not fit"):
        file.apply(text)


def test_lines_that_look_like_headers_are_text() -> None:
    old, new = "-- a/x\n++ b/x\n@@ -1 +1 @@\n", "-- a/x\n++ b/y\n@@ -1 +1 @@\n"
    (file,) = diff.parse(diff.unified(old, new, label="x.py"))
    assert file.apply(old) == new


@pytest.mark.parametrize("label", ["x.py", "a b/c.py", 'q"uo\\te.py', "tab\tnew\nline.py", "näme.py"])
def test_any_path_is_read_back(label: str) -> None:
    assert diff.parse(diff.unified("a\n", "b\n", label=label))[0].label == label


WHOLE = diff.unified(OLD, NEW, label="x.py")


@pytest.mark.parametrize(
    "damaged",
    [
        "nonsense\n",
        "--- a/x.py\n",
        "--- a/x.py\n+++ b/x.py\n",
        "--- a/x.py\n+++ b/y.py\n@@ -1 +1 @@\n-a\n+b\n",
        "--- x.py\n+++ x.py\n@@ -1 +1 @@\n-a\n+b\n",
        WHOLE.replace("@@ -1,", "@@ -x,"),
        WHOLE[: len(WHOLE) // 2],
        WHOLE.replace("\n line 1\n", "\n*line 1\n"),
        WHOLE + "rest\n",
        "--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,2 @@\n-a\n-b\n+c\n+d\n",
    ],
)
def test_a_damaged_diff_is_refused(damaged: str) -> None:
    with pytest.raises(UserError, match="is damaged at its line"):
        diff.parse(damaged)


def test_a_label_is_relative_where_it_can_be(tmp_path: Path) -> None:
    assert diff.label(f"{tmp_path}/sub/x.py", root=tmp_path) == "sub/x.py"
    assert diff.label(f"{tmp_path}/x.py", root=tmp_path / "sub") == f"{tmp_path}/x.py".lstrip("/")
