"""A unified diff -> its lines, each with what it is."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a line of a diff is."""

    FILE = "file"
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a diff, its sign included."""

    kind: Kind
    text: str


_HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")


def lines(patch: str) -> Iterator[Line]:
    """The lines of `patch`. Hunks are counted through, so a removed "-- x" is not taken for a file header."""
    old = new = 0
    for text in patch.rstrip("\n").split("\n"):
        hunk = _HUNK.match(text)
        if old <= 0 and new <= 0:
            if hunk:
                old, new = (int(count) if count is not None else 1 for count in hunk.groups())
            yield Line(Kind.HUNK if hunk else Kind.FILE, text)
            continue
        kind = {"+": Kind.ADDED, "-": Kind.REMOVED}.get(text[:1], Kind.SAME)
        if not text.startswith("\\"):  # "\ No newline at end of file" counts for neither side
            old -= kind is not Kind.ADDED
            new -= kind is not Kind.REMOVED
        yield Line(kind, text)
