"""Lines of a diff are told apart by how they begin."""

from collections import Counter

from hotlap.report.diff import lines
from tests.samples import PATCH


def test_tells_the_lines_of_a_patch_apart() -> None:
    kinds = [kind for kind, _ in lines(PATCH)]
    assert kinds[:4] == ["file", "file", "hunk", "same"]
    assert Counter(kinds)["added"] == 5
    assert Counter(kinds)["removed"] == 2
    assert "\n".join(line for _, line in lines(PATCH)) + "\n" == PATCH
