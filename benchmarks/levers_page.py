"""Docstrings of the levers -> docs/levers.md.

python benchmarks/levers_page.py          writes the page
python benchmarks/levers_page.py --check  says whether it is current (exit code 1 if not)
"""

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from hotlap import levers

PAGE = Path(__file__).resolve().parents[1] / "docs" / "levers.md"

_HEADING = re.compile(r"^(What|Why|When it hurts): ", re.MULTILINE)

_HEAD = """\
# What hotlap tries

<!-- Made from the docstrings of src/hotlap/levers by benchmarks/levers_page.py; change those. -->

Each lever looks at the state of the script and at what can go wrong before it is tried, is timed against the script
without it, and is held by [the gate](gate.md) to what it says about numbers: `exact` (losses equal bit for bit),
`rounding` (as far apart as rounding alone puts them), `statistical` (no worse than another seed). A lever of scope
`step` is switched inside one process; the others are compared between processes.
"""


def page() -> str:
    """The text of docs/levers.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for kind in levers.ALL:
        title, _, text = (inspect.getdoc(kind) or "").partition("\n\n")
        settings = ", ".join(f"`{field.name}`" for field in fields(kind))  # type: ignore[arg-type]  # all are dataclasses
        yield f"## {kind.name}\n"
        yield f"{title}\n"
        yield f"Scope `{kind.scope}`, numbers `{kind.numerics}`{f', settings {settings}' if settings else ''}."
        yield _HEADING.sub(r"\n**\1:** ", text.strip())
        yield ""


def main() -> int:
    """Write, or check."""
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        return 0 if current else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
