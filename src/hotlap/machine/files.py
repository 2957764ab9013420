"""Small files of the system -> text, numbers, lists; None where there is nothing that can be read."""

import re
from pathlib import Path


def text(path: Path) -> str | None:
    """The whole file."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def in_brackets(line: str | None) -> str | None:
    """The chosen word: "always [madvise] never" -> "madvise"."""
    found = re.search(r"\[([^\[\]]*)\]", line or "")
    return found[1] if found else None


def numbers(listed: str | None) -> frozenset[int]:
    """The kernel's lists of processors: "0-2,7" -> {0, 1, 2, 7}."""
    found: set[int] = set()
    for part in (listed or "").strip().split(","):
        if ends := re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part):
            found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)
