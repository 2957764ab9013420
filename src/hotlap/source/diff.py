"""Unified diffs: written so that `patch -p1` and `git apply` take them, and applied again strictly."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import UserError

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@\n")
NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of one file that are replaced, with the unchanged ones around them."""

    start: int
    """Index of the first old line, from 0."""
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a diff says about one file."""

    label: str
    """Path as the diff names it, without the `a/`."""
    hunks: tuple[Hunk, ...]

    def apply(self, text: str) -> str:
        """The new text.

        Raises:
            UserError: `text` is not what the diff was made from.
        """
        lines = split_lines(text)
        out: list[str] = []
        done = 0
        for hunk in self.hunks:
            end = hunk.start + len(hunk.old)
            if hunk.start < done or tuple(lines[hunk.start : end]) != hunk.old:
                raise UserError(f"The patch does not fit {self.label!a} at line {hunk.start + 1}.")
            out += [*lines[done : hunk.start], *hunk.new]
            done = end
        return "".join([*out, *lines[done:]])


def split_lines(text: str) -> list[str]:
    """Lines as diffs count them: ended by a line feed and by nothing else."""
    lines = text.split("\n")
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]


def label(path: str, *, root: Path) -> str:
    """How a diff names `path`: relative to `root` where it lies below it, else whole."""
    for base, whole in ((root, Path(path)), (root.resolve(), Path(path).resolve())):
        if whole.is_relative_to(base):
            return whole.relative_to(base).as_posix()
    return Path(path).as_posix().lstrip("/")


def unified(old: str, new: str, *, label: str) -> str:
    """The diff of one file; empty if nothing changed. A byte order mark is part of the text."""
    lines = list(difflib.unified_diff(split_lines(old), split_lines(new), lineterm="\n"))
    if not lines:
        return ""
    header = [f"--- {_name('a', label)}\n", f"+++ {_name('b', label)}\n"]
    # The first two lines are difflib's own header.
    return "".join([*header, *(line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in lines[2:])])


def parse(diff: str) -> tuple[FileDiff, ...]:
    """A diff as `unified` writes it -> its files.

    Raises:
        UserError: it is anything else.
    """
    lines = split_lines(diff)
    if lines and not lines[-1].endswith("\n"):
        raise _damaged(len(lines) - 1)
    files: list[FileDiff] = []
    at = 0
    while at < len(lines):
        old, new = _named("--- a", lines, at), _named("+++ b", lines, at + 1)
        if old is None or old != new:
            raise _damaged(at)
        hunks: list[Hunk] = []
        at += 2
        while at < len(lines) and lines[at].startswith("@@"):
            hunk, at = _hunk(lines, at)
            hunks.append(hunk)
        if not hunks:
            raise _damaged(at)
        files.append(FileDiff(label=old, hunks=tuple(hunks)))
    return tuple(files)


def _damaged(at: int) -> UserError:
    return UserError(f"The patch of this study is damaged at its line {at + 1}. Run `hotlap tune` again.")


def _name(side: str, label: str) -> str:
    """`a/train.py`; a tab behind a name with spaces ends it, and odd characters are quoted as git does."""
    name = f"{side}/{label}"
    if re.search(r'["\\\x00-\x1f\x7f]', name):
        return '"' + re.sub(r'["\\\x00-\x1f\x7f]', lambda match: f"\\{ord(match[0]):03o}", name) + '"'
    return f"{name}\t" if " " in name else name


def _named(prefix: str, lines: Sequence[str], at: int) -> str | None:
    """The path in a header line, or None if it is not one that `_name` wrote."""
    mark, side = prefix.split()
    if at >= len(lines) or not lines[at].startswith(f"{mark} "):
        return None
    name = lines[at][len(mark) + 1 :].removesuffix("\n").removesuffix("\t")
    if name.startswith('"'):
        name = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name[1:-1])
    return name.removeprefix(f"{side}/") if name.startswith(f"{side}/") else None


def _hunk(lines: Sequence[str], at: int) -> tuple[Hunk, int]:
    """The hunk whose header is line `at`, and the index of the line behind it."""
    match = HUNK.fullmatch(lines[at])
    if not match:
        raise _damaged(at)
    first, num_old, num_new = int(match[1]), int(match[2] or 1), int(match[4] or 1)
    body: list[tuple[str, str]] = []
    at += 1
    while _count(body, " -") < num_old or _count(body, " +") < num_new:
        if at >= len(lines) or lines[at][0] not in " +-":
            raise _damaged(at)
        mark, line = lines[at][0], lines[at][1:]
        at += 1
        if at < len(lines) and lines[at] == NO_NEWLINE:
            line = line.removesuffix("\n")
            at += 1
        body.append((mark, line))
    if _count(body, " -") != num_old or _count(body, " +") != num_new:
        raise _damaged(at)
    old = tuple(line for mark, line in body if mark in " -")
    new = tuple(line for mark, line in body if mark in " +")
    # An empty side is counted from the line before it.
    return Hunk(start=first - 1 if num_old else first, old=old, new=new), at


def _count(body: Sequence[tuple[str, str]], marks: str) -> int:
    return sum(mark in marks for mark, _ in body)
