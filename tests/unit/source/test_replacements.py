"""Whole statements are replaced with their comments kept."""

import hashlib
from pathlib import Path

import pytest

from hotlap.record import CallSite
from hotlap.source import CannotEdit, Edit, Replace, patch

TEXT = """\
def f(q, k, v, mask):
    # above
    a = q @ k  # one
    # two
    if mask is not None:  # three
        a = a + mask
    b = a @ v  # last
    return b
"""


def at(path: Path, calls: str, place: tuple[int, int, int, int]) -> CallSite:
    line, end_line, col, end_col = place
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return CallSite(calls=calls, path=str(path), sha256=sha256, line=line, end_line=end_line, col=col, end_col=end_col)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(TEXT.encode())
    return path


def edited(path: Path, *edits: Edit) -> list[str]:
    return patch(edits, root=path.parent).texts[str(path)].splitlines()


def test_statements_become_one_below_their_comments(path: Path) -> None:
    edit = Replace(site=at(path, "x", (3, 7, 4, 13)), code="b = F.f(q)", imports="import F")
    assert edited(path, edit)[:9] == [
        "import F",
        "",
        "def f(q, k, v, mask):",
        "    # above",
        "    # one",
        "    # two",
        "    # three",
        "    b = F.f(q)  # last",
        "    return b",
    ]


def test_one_statement_becomes_several_at_its_own_margin(path: Path) -> None:
    edit = Replace(site=at(path, "x", (7, 7, 4, 13)), code="b = a @ v\nb.add_(1)\nc = b")
    assert edited(path, edit)[5:10] == [
        "        a = a + mask",
        "    b = a @ v",
        "    b.add_(1)",
        "    c = b  # last",
        "    return b",
    ]


@pytest.mark.parametrize("place", [(3, 6, 4, 8), (3, 7, 4, 9), (3, 8, 6, 12), (5, 7, 4, 13), (40, 41, 0, 1)])
def test_what_begins_or_ends_within_a_statement_is_refused(path: Path, place: tuple[int, int, int, int]) -> None:
    with pytest.raises(CannotEdit, match=r"train\.py:\d+ cannot be edited"):
        edited(path, Replace(site=at(path, "x", place), code="b = 1"))


def test_two_changes_of_the_same_statements_are_refused(path: Path) -> None:
    site = at(path, "x", (7, 7, 4, 13))
    assert edited(path, *[Replace(site=site, code="b = 1")] * 2)[6] == "    b = 1  # last"
    with pytest.raises(CannotEdit, match="in each other's way"):
        edited(path, Replace(site=site, code="b = 1"), Replace(site=site, code="b = 2"))
