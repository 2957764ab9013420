"""Two texts of a file -> a unified diff that `patch -p1` and `git apply` take."""

import difflib
import io
import re
from pathlib import Path

_NO_NEWLINE = "\\ No newline at end of file\n"


def label(path: str, *, root: Path) -> str:
    """How a diff names `path`: relative to `root` where it lies below it, else whole."""
    for base, whole in ((root, Path(path)), (root.resolve(), Path(path).resolve())):
        if whole.is_relative_to(base):
            return whole.relative_to(base).as_posix()
    return Path(path).as_posix().lstrip("/")


def unified(old: str, new: str, *, label: str) -> str:
    """The diff of one file; empty if nothing changed. A byte order mark is part of the text."""
    lines = difflib.unified_diff(_lines(old), _lines(new), _name("a", label), _name("b", label))
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def _lines(text: str) -> list[str]:
    """As diffs count them: ended by a line feed and by nothing else."""
    return [*io.StringIO(text, newline="\n")]


def _name(side: str, label: str) -> str:
    """`a/train.py`; a tab behind a name with spaces ends it, and odd characters are quoted as git does."""
    name = f"{side}/{label}"
    if re.search(r'["\\\x00-\x1f\x7f]', name):
        return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda match: f"\\{ord(match[0]):03o}", name) + '"'
    return f"{name}\t" if " " in name else name
