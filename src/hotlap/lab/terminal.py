"""Result -> text for a terminal: what came out, the tables, and what to know about them."""

from collections.abc import Iterator
from io import StringIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from hotlap.lab import words
from hotlap.lab.result import Result, Table
from hotlap.report.clean import clean, clean_line
from hotlap.units import duration

WIDTH = 100


def render(result: Result) -> str:
    """Plain text, `WIDTH` columns wide."""
    out = StringIO()
    # An empty environment: the text is the same whatever FORCE_COLOR, COLUMNS or TERM say.
    console = Console(
        file=out,
        width=WIDTH,
        force_terminal=False,
        color_system=None,
        legacy_windows=False,
        highlight=False,
        _environ={},
    )
    for section in sections(result):
        console.print(section)
        console.print()
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n")).strip("\n") + "\n"


def sections(result: Result) -> Iterator[RenderableType]:
    """One after the other."""
    quick = " --quick" if result.quick else ""
    yield Text.assemble((f"hotlap lab {clean_line(result.name)}{quick}", "bold"), "  ", clean_line(result.title))
    for table in result.tables:
        yield _table(table)
    for paragraph in result.story:
        yield Text(clean(paragraph))
    if result.notes:
        yield Group(*(Padding(Text(f"- {clean_line(note)}", style="dim"), (0, 0, 0, 1)) for note in result.notes))
    where = f"{result.processor or 'unknown processor'}, {result.num_cores} cores, {', '.join(result.gpus) or 'no GPU'}"
    yield Text(f"{clean_line(where)}; took {duration(result.elapsed_s)}", style="dim")


def _table(table: Table) -> RenderableType:
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in table.columns:
        shown.add_column(Text(clean_line(name)), overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(clean_line(words.cell(cell))) for cell in row))
    below = [table.note] if table.note else []
    below += [words.LEGEND] if words.any_predicted(table.rows) else []
    return Group(
        Text(clean_line(table.title), style="bold"), shown, *(Text(clean_line(note), style="dim") for note in below)
    )
