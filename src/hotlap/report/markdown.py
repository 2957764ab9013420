"""Study -> Markdown for a pull request or an issue: what was measured, in tables that a reviewer reads in a minute.

Texts of the study are foreign: each character that Markdown or HTML could act upon is escaped, and what a code host
turns into a link or a mention by itself is broken up by an empty comment.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from hotlap.record import Study
from hotlap.report import document, story
from hotlap.report.clean import clean, clean_line
from hotlap.report.details import closer_look
from hotlap.report.document import Section

# https://github.github.com/gfm/: punctuation that may be escaped by a backslash (6.1), and what links by itself (6.9).
_PUNCTUATION = re.compile(r"([\\`*_\[\]|~$])")
# Code in a sentence. In a table a bar would end its cell, within code too; a backslash may join what stands behind it.
_CODE = re.compile(r"(?<!`)`([^`|\\]+)`(?!`)")
_LINKS = re.compile(r"(?i)(://|www\.|@|#)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def render(study: Study) -> str:
    """The study in short; a patch and what a crashed script printed are folded away."""
    return "\n".join(_lines(study)).strip("\n") + "\n"


def _lines(study: Study) -> Iterator[str]:
    found = document.answer(study)
    yield f"## {_text(found.title)}"
    yield ""
    yield f"`{_code(story.script(study))}`: {_text(found.sentence)}"
    yield from _notes(found.lines)
    if found.code:
        yield from _fence("\n".join(found.code), language="diff")
    if found.commands:
        yield from _fence("\n".join(f"{clean_line(one)}  # {clean_line(what)}" for one, what in found.commands), "sh")
    if study.patch:
        yield from _folded("The patch", _fence(clean(study.patch).rstrip("\n"), language="diff"))
    yield from chain.from_iterable(map(_section, document.sections(study)))
    closer = closer_look(study)
    if closer:
        yield from _folded("A closer look", chain.from_iterable(map(_section, closer)))


# Name of a section -> title of a column -> field of its rows.
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "time": {"phase": "head", "mean": "note", "of a step": "text"},
    "findings": {"finding": "head", "a step": "note", "evidence": "text", "then": "aside"},
    "ceilings": {"at best": "head", "the step then": "text"},
    "trials": {"trial": "head", "": "mark", "speed-up": "note", "gate": "gate"},
    "predictions": {"device": "head", "a step": "text", "assumed": "aside"},
    "detail": {"cost": "head", "what": "text"},
}


def _section(section: Section) -> Iterator[str]:
    """Its title, its sentences, its rows as a table, and what a person would change."""
    yield ""
    yield f"**{_text(section.title)}**"
    if section.lead:
        yield ""
        yield _text(section.lead)
    if section.output:
        yield from _fence(section.output)
    columns = _COLUMNS.get(section.name, {})
    yield from _table(tuple(columns), ([getattr(row, name) for name in columns.values()] for row in section.rows))
    for row in section.rows:
        if row.code:
            yield from _fence("\n".join(row.code), language="diff")
    yield from _notes(section.notes)


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield ""
    yield from (f"- {_text(note)}" for note in notes)


def _folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield from lines
    yield ""
    yield "</details>"


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Nothing at all without rows."""
    rows = list(rows)
    if not rows:
        return
    yield ""
    yield f"| {' | '.join(names)} |"
    yield f"|{' --- |' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(_text(cell) for cell in row)} |"


def _fence(text: str, language: str = "text") -> Iterator[str]:
    """`text` as a block of code, in a fence longer than any within it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield ""
    yield f"{fence}{language}"
    yield text
    yield fence


def _code(text: str) -> str:
    """Inside of single backticks: none of its own."""
    return clean_line(text).replace("`", "'") or " "


def _text(text: str) -> str:
    """A text of the study, inert; what stands in backticks is code."""
    parts = _CODE.split(clean_line(text))
    return "".join(f"`{part}`" if number % 2 else _inert(part) for number, part in enumerate(parts))


def _inert(text: str) -> str:
    escaped = _PUNCTUATION.sub(r"\\\1", text)
    for char, entity in _HTML.items():
        escaped = escaped.replace(char, entity)
    return _LINKS.sub(lambda match: f"{match[1]}<!-- -->", escaped)
