"""Many small changes to one text, made at once: none sees the offsets of another."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import libcst as cst

from hotlap.source.file import Refusal
from hotlap.source.tree import Span, Tree

# What may be inserted into an f-string: nothing that could end it, or its field, in any version of Python.
_SAFE_IN_F_STRING = re.compile(r"[\w.()=, ]*")

_SPACE = " \t\f\\\r\n"


class Rank(IntEnum):
    """Which of several insertions at one place comes first: what ends there does so from the inside out."""

    SUFFIX = 0
    PARENTHESIS_END = 1
    WRAP_END = 2
    APPEND = 3
    TOP = 4
    SHIFT = 5
    BEFORE = 6
    HEADER = 7
    WRAP = 8
    PARENTHESIS = 9


@dataclass(frozen=True, slots=True)
class Splice:
    """The text from `start` to `end` is replaced; an insertion if they are equal."""

    start: int
    end: int
    text: str
    rank: Rank = Rank.TOP


@dataclass(frozen=True, slots=True)
class Shift:
    """Lines that begin within the span are indented by `indent`, those within strings aside."""

    span: Span
    indent: str


def insert(offset: int, text: str, rank: Rank) -> Splice:
    """A splice that replaces nothing."""
    return Splice(offset, offset, text, rank)


def line_break(tree: Tree, statement: cst.BaseSmallStatement, indent: str, *, mark: str) -> Splice:
    """The statement begins a line; what stood before it on its own line goes, up to `mark` and with it."""
    text = tree.source.text
    end = start = tree.span(statement)[0]
    while text[start - 1] in _SPACE + mark:
        start -= 1
    return Splice(start, end, f"\n{indent}")


def compose(
    text: str, splices: Sequence[Splice], *, shifts: Sequence[Shift], strings: Iterable[Span], newline: str
) -> str:
    """`text` with all of `splices`, in which a line feed stands for `newline`.

    Raises:
        Refusal: two of them change the same text, or one would break an f-string.
    """
    strings = tuple(strings)
    out: list[str] = []
    done = 0
    last: Splice | None = None
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end, splice.rank)):
        if splice == last and splice.start < splice.end:
            continue  # two edits of statements on one line ask for the same break
        last = splice
        if splice.start < done:
            raise Refusal("two changes are in each other's way")
        if any(start < splice.start < end for start, end in strings) and not _SAFE_IN_F_STRING.fullmatch(splice.text):
            raise Refusal("the call is in an f-string")
        indent = "".join(shift.indent for shift in shifts if shift.span[0] < splice.start <= shift.span[1])
        new = splice.text.replace("\n", f"\n{indent}") if splice.rank is Rank.APPEND else splice.text
        out += [text[done : splice.start], new.replace("\n", newline)]
        done = splice.end
    return "".join([*out, text[done:]])
