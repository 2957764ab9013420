"""Docstrings of the rules -> docs/rules.md.

python benchmarks/rules_page.py          writes the page
python benchmarks/rules_page.py --check  says whether it is current (exit code 1 if not)
"""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hotlap import rules

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rules.md"

_HEADING = re.compile(r"^(What it says|Why it \w+( \w+)?|Example):", re.MULTILINE)

_HEAD = """\
# What hotlap finds

<!-- Made from the docstrings of src/hotlap/rules by benchmarks/rules_page.py; change those. -->

Each finding has a code that stays the same, what it costs of each step, and one sentence with numbers. Its cost is what
a step would save at most if the cause were gone. They come costliest first; a cause takes the place of what it explains
(see the end of this page), and `compute-bound`, which is no fault, is said where there is nothing else to say.
"""


def page() -> str:
    """The text of docs/rules.md."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for code, rule in rules.ALL.items():
        module = importlib.import_module(rule.__module__)
        title, _, text = (module.__doc__ or "").partition("\n\n")
        yield f"## {code}\n"
        what = title.partition(": ")[2]
        yield f"{what[:1].upper()}{what[1:]}\n"
        yield _HEADING.sub(r"\n**\1:**", text.strip()).lstrip()
        limits = dict(_limits(vars(module)))
        if limits:
            yield "\nLimits: " + ", ".join(f"`{name}` {value:g}" for name, value in limits.items()) + "."
        yield ""
    yield "## What explains what\n"
    yield "A finding is left out when one of its causes accounts for at least half of its cost.\n"
    for cause, explained in rules.EXPLAINS.items():
        yield f"- `{cause}`: {', '.join(f'`{code}`' for code in sorted(explained))}"
    yield ""


def _limits(names: Mapping[str, object]) -> Iterator[tuple[str, float]]:
    for name, value in names.items():
        if name.startswith("MIN_") and isinstance(value, int | float):
            yield name, float(value)


def main() -> int:
    """Write, or check."""
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        return 0 if current else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
