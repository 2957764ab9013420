"""Lines of a diff are told apart by what they are, not only by their first sign."""

from hotlap.report.diff import Kind, lines
from tests.samples import PATCH


def test_tells_the_lines_of_a_patch_apart() -> None:
    kinds = [line.kind for line in lines(PATCH)]
    assert kinds[:4] == [Kind.FILE, Kind.FILE, Kind.HUNK, Kind.SAME]
    assert kinds.count(Kind.ADDED) == 5
    assert kinds.count(Kind.REMOVED) == 2
    assert "\n".join(line.text for line in lines(PATCH)) + "\n" == PATCH


def test_a_removed_comment_of_sql_is_not_a_file_header() -> None:
    patch = "--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- drop\n same\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n"
    kinds = [line.kind for line in lines(patch)]
    assert kinds[3] is Kind.REMOVED
    assert kinds[5:8] == [Kind.FILE, Kind.FILE, Kind.HUNK]


def test_a_missing_newline_at_the_end_counts_for_neither_side() -> None:
    patch = "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n--- a/y\n"
    assert [line.kind for line in lines(patch)][-1] is Kind.FILE
