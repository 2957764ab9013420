"""A unified diff -> its lines, each with what it is: file, hunk, added, removed or same."""

from collections.abc import Iterator

# The first that a line begins with; a removed line "-- x" reads as the name of a file, which only colours it.
_KINDS = {"--- ": "file", "+++ ": "file", "@@": "hunk", "+": "added", "-": "removed", "": "same"}


def lines(patch: str) -> Iterator[tuple[str, str]]:
    """(What it is, the line with its sign)."""
    for text in patch.rstrip("\n").split("\n"):
        yield next(kind for begin, kind in _KINDS.items() if text.startswith(begin)), text
