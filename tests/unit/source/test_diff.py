"""Diffs are as the standard tools take them; how `git apply` and `patch` read them is in test_patching."""

from pathlib import Path

import pytest

from hotlap.source import file


def test_says_what_changed_and_where() -> None:
    old = "".join(f"line {number}\n" for number in range(9))
    assert file.unified(old, old.replace("line 8\n", "line eight"), label="x.py") == (
        "--- a/x.py\n+++ b/x.py\n@@ -6,4 +6,4 @@\n line 5\n line 6\n line 7\n-line 8\n+line eight\n"
        "\\ No newline at end of file\n"
    )
    assert file.unified(old, old, label="x.py") == ""


@pytest.mark.parametrize(
    ("label", "header"),
    [
        ("x.py", "--- a/x.py\n+++ b/x.py\n"),
        ("näme.py", "--- a/näme.py\n+++ b/näme.py\n"),
        ("a b/c.py", "--- a/a b/c.py\t\n+++ b/a b/c.py\t\n"),
        ('q"uo\\te.py', '--- "a/q\\042uo\\134te.py"\n+++ "b/q\\042uo\\134te.py"\n'),
        ("tab\tnew\nline.py", '--- "a/tab\\011new\\012line.py"\n+++ "b/tab\\011new\\012line.py"\n'),
    ],
)
def test_any_path_is_written_as_git_does(label: str, header: str) -> None:
    assert file.unified("a\n", "b\n", label=label).startswith(header)


def test_a_label_is_relative_where_it_can_be(tmp_path: Path) -> None:
    assert file.label(f"{tmp_path}/sub/x.py", root=tmp_path) == "sub/x.py"
    assert file.label(f"{tmp_path}/x.py", root=tmp_path / "sub") == f"{tmp_path}/x.py".lstrip("/")
