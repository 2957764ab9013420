"""Study -> text for a terminal, its answer last; each section can be printed alone.

Meaning is never told by colour alone. Every text of the study goes through `_text`, which cleans it and keeps rich's
markup from being read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hotlap.record import Phase, Study, Verdict
from hotlap.report import document, outcome, story
from hotlap.report.clean import clean_line
from hotlap.report.details import closer_look, details, sweep
from hotlap.report.document import Row, Section

WIDTH = 100
"""Columns of text that is not for a terminal."""

# Columns beside a command, of which what it does takes all but four.
_BESIDE = 32

PHASE_STYLES = {
    Phase.INPUT: "yellow",
    Phase.TRANSFER: "bright_yellow",
    Phase.FORWARD: "blue",
    Phase.BACKWARD: "cyan",
    Phase.COMMUNICATION: "magenta",
    Phase.OPTIMIZER: "green",
    Phase.SYNC: "red",
    Phase.OTHER: "bright_black",
}
DIFF_STYLES = {"file": "bold", "hunk": "cyan", "added": "green", "removed": "red", "same": ""}
VERDICT_STYLES = {Verdict.UNHARMED: "green", Verdict.HARMED: "bold red", Verdict.UNDECIDED: "yellow"}


def render(study: Study) -> str:
    """The whole study as plain text."""
    return plain(sections(study))


def plain(sections: Iterable[RenderableType]) -> str:
    """Sections as text without escape codes, the same whatever FORCE_COLOR, COLUMNS or TERM say."""
    out = StringIO()
    console = Console(file=out, width=WIDTH, color_system=None, legacy_windows=False, highlight=False, _environ={})
    print_on(console, sections)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).strip("\n") + "\n"


def print_on(console: Console, sections: Iterable[RenderableType]) -> None:
    """Each with an empty line behind it, its lines as long as they are."""
    for section in sections:
        console.print(section, crop=False)
        console.print()


def sections(study: Study) -> Iterator[RenderableType]:
    """All of it, in the order in which a study comes to know it."""
    for section in document.sections(study):
        yield draw(section)
        if section.name == "ceilings":
            yield from _closer(closer_look(study))
    yield from _answer(study)


def part(study: Study, name: str, *, verbose: bool = False) -> Iterator[RenderableType]:
    """What is new in the report when this part of the study is known; nothing where a report does not show it.

    `verbose`: a lever that does not apply is told with the reason.
    """
    match name:
        case "baseline":
            yield draw(document.time_per_step(study))
        case "findings":
            yield draw(document.findings(study))
            yield from _closer(details(story.timed(study)))
        case "sweep":
            yield from _closer(sweep(study.sweep))
        case "ceilings":
            yield draw(document.ceilings(study))
        case "noise" if study.noise or outcome.is_tuned(study):
            yield draw(document.noise(study))
        case "trial":
            yield from _last_trial(study, verbose=verbose)
        case "end":
            yield from _end(study)


def _last_trial(study: Study, *, verbose: bool) -> Iterator[RenderableType]:
    *earlier, last = study.trials
    row = document.trial(last)
    if verbose:
        yield _trial(row)
    elif last.scope != "none":
        known = last.failure is not None and any((one.failure, one.why) == (last.failure, last.why) for one in earlier)
        yield _trial(replace(row, aside="As before.") if known else row)


def _end(study: Study) -> Iterator[RenderableType]:
    """What comes when the last trial is over."""
    unfit = story.not_applying(study)
    if unfit is not None:
        yield _text(unfit, "dim")
    for section in (document.recipe(study), document.warnings(study)):
        if section is not None:
            yield draw(section)
    yield from _answer(study)


def _answer(study: Study) -> Iterator[RenderableType]:
    """What a reader of a terminal is left with."""
    if study.patch:
        yield patch(study.patch)
    yield answer(study)


def answer(study: Study) -> RenderableType:
    """What the study comes to, and the commands to go on with."""
    found = document.answer(study)
    gain = found.outcome is outcome.Outcome.GAIN
    title = Text.assemble(_text(found.title, "bold reverse" if gain else "bold"), "  ", _text(story.script(study)))
    lines = [_text(line) for line in (found.sentence, *found.lines)]
    return Group(title, Padding(Group(*lines, *_changes(found.code)), (0, 0, 0, 2)), Commands(found.commands))


@dataclass(frozen=True, slots=True)
class Commands:
    """Each with what it does: beside it, or below where one is too long for that, for a command in pieces cannot be
    copied."""

    commands: Sequence[tuple[str, str]]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        if all(len(command) + _BESIDE <= options.max_width for command, _ in self.commands):
            beside = Table.grid(padding=(0, 2, 0, 0))
            beside.add_column(no_wrap=True)
            for command, what in self.commands:
                beside.add_row(_text(command, "bold"), _text(what, "dim"))
            yield Padding(beside, (0, 0, 0, 2))
            return
        for command, what in self.commands:
            yield Text.assemble("  ", _text(command, "bold"), no_wrap=True, overflow="ignore")  # padding would cut it
            yield Padding(_text(what, "dim"), (0, 0, 0, 6))


def patch(text: str) -> RenderableType:
    """The change as a diff, its lines as long as they are. They are cut unless printed with `crop=False`."""
    changed = Text("\n").join(Text(f"  {line}", DIFF_STYLES[kind]) for kind, line in document.diff_lines(text))
    changed.no_wrap, changed.overflow = True, "ignore"
    return Group(Text("Patch", "bold underline"), changed)  # padding would cut them


def draw(section: Section) -> RenderableType:
    """A section, whatever it is of."""
    parts: list[RenderableType] = [_text(section.lead)] if section.lead else []
    if any(row.phase for row in section.rows):
        parts.append(_phases(section.rows))
    elif any(row.mark for row in section.rows):
        parts += map(_trial, section.rows)
    elif section.rows:
        parts += _rows(section.rows)
    if section.output:
        parts += [Text("the end of what it printed:", "dim"), Padding(Text(section.output), (0, 0, 0, 2))]
    mark = "! " if section.name == "warnings" else ""
    return _section(section.title, *parts, *(_text(f"{mark}{note}", "" if mark else "dim") for note in section.notes))


def _closer(found: tuple[Section, ...]) -> Iterator[RenderableType]:
    if found:
        yield _section("A closer look", *map(draw, found))


def _rows(rows: Iterable[Row]) -> Iterator[RenderableType]:
    for row in rows:
        table = _columns(25, None)
        left = [_text(row.head, "bold"), *([_text(row.note)] if row.note else [])]
        aside, following, command = row.aside.partition("Next: ")
        beside = [_text(aside + following, "dim")] if row.aside else []
        table.add_row(Group(*left), Group(_text(row.text), *_changes(row.code), *beside))
        yield table
        if command:  # below, for a command in pieces cannot be copied
            yield Text.assemble("    ", _text(command.strip("`"), "bold"), no_wrap=True, overflow="ignore")


def _changes(lines: Iterable[str]) -> Iterator[RenderableType]:
    """What a person would change."""
    colours = {"@": "dim", "-": "red", "$": "bold"}
    return (Text(line, colours.get(line[0], "green")) for line in lines)


def _trial(row: Row) -> RenderableType:
    """One trial; stands in columns below the others when printed one after another."""
    table = _columns(16, None, 24, 12)
    table.add_row(
        _text(f"{'+' if row.good else '-'} {row.mark}", "bold green" if row.good else ""),
        _text(row.head, "bold" if row.good else ""),
        _text(row.note),
        Text(row.gate, "dim" if row.verdict is None else VERDICT_STYLES[row.verdict]),
    )
    return Group(table, Padding(_text(row.aside, "dim"), (0, 0, 0, 18)))


def _phases(rows: Iterable[Row]) -> RenderableType:
    """A row for each phase; the bars stand end to end, so together they are the step."""
    table = _columns(13, 9, 4, None)
    table.columns[1].justify = table.columns[2].justify = "right"
    start = 0.0
    for row in rows:
        assert row.phase is not None
        bar = Bar(1.0, start, start + row.share, color=PHASE_STYLES[row.phase])
        table.add_row(row.head, row.note, row.text, bar)
        start += row.share
    return table


def _section(title: str, *parts: RenderableType) -> RenderableType:
    whole = (isinstance(part, Text) and part.no_wrap for part in parts)  # padding would cut it
    padded = (part if one else Padding(part, (0, 0, 0, 2)) for part, one in zip(parts, whole, strict=True))
    return Group(_text(title, "bold underline"), *padded)


def _columns(*widths: int | None) -> Table:
    """A table without lines; a width of None is what is left."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for width in widths:
        table.add_column(width=width, ratio=None if width is not None else 1, overflow="fold")
    return table


def _text(text: str, style: str = "") -> Text:
    """`text` of a study as one line of text: cleaned, its markup inert."""
    return Text(clean_line(text), style)
