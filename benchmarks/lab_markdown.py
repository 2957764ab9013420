"""A result of `hotlap lab NAME --json` -> Markdown: its paragraphs, its tables or its notes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotlap.units import between, duration

_PREDICTED = "~ is predicted, not measured; in parentheses the 80% interval."


def markdown(result: Mapping[str, Any], part: str) -> str:
    """`part` of a result: story, tables or notes.

    Raises:
        ValueError: it has no such part.
    """
    if part == "story":
        return "\n".join(f"{paragraph}\n" for paragraph in result.get("story", []))
    if part == "notes":
        return "".join(f"- {note}\n" for note in result.get("notes", []))
    if part == "tables":
        return "\n".join("\n".join(_table(table)) for table in result.get("tables", []))
    raise ValueError(f"a lab has no part {part!r}; known are story, tables, notes")


def _table(table: Mapping[str, Any]) -> Iterator[str]:
    yield f"**{table['title']}**\n"
    yield _row(table["columns"])
    yield _row(["---"] * len(table["columns"]))
    yield from (_row([_cell(cell) for cell in row]) for row in table["rows"])
    cells = [cell for row in table["rows"] for cell in row if isinstance(cell, dict)]
    legend = _PREDICTED if any(cell.get("predicted") for cell in cells) else ""
    below = " ".join(filter(None, (table.get("note", ""), legend)))
    yield f"\n{below}\n" if below else ""


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Any) -> str:
    if cell is None:
        return "-"
    if not isinstance(cell, dict):
        return str(cell).replace("|", "\\|").replace("\n", " ")
    text = f"{'~' if cell.get('predicted') else ''}{duration(cell['value'])}"
    if cell.get("low") is None or cell.get("high") is None:
        return text
    return f"{text} ({between(duration(cell['low']), duration(cell['high']))})"
