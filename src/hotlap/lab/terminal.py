"""Result -> text for a terminal: what came out, the tables, what to know about them, then the study's own report."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from hotlap.lab.result import LEGEND, Result, Table
from hotlap.report import terminal
from hotlap.report.clean import clean, clean_line
from hotlap.units import duration


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
    if result.study is not None:
        yield from terminal.sections(result.study)


def _table(table: Table) -> RenderableType:
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for name in table.columns:
        shown.add_column(Text(clean_line(name)), overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text("-" if cell is None else clean_line(str(cell))) for cell in row))
    below = [note for note in (table.note, LEGEND if table.has_predictions() else "") if note]
    return Group(
        Text(clean_line(table.title), style="bold"), shown, *(Text(clean_line(note), style="dim") for note in below)
    )
