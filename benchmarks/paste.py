"""benchmarks/results/*.json -> the marked blocks of README.md and docs/*.md, so that no figure is typed by hand.

A block begins with `<!-- paste: KIND ... -->` and ends with `<!-- end paste -->`. Kinds:

    claims                one row for each entry of "claims" in any result
    output NAME           "output" of results/NAME.json, as it was on the terminal
    table NAME [KEY ...]  "results" of results/NAME.json, a list of objects; the keys are the columns (default: all)

What a result has to hold is written in docs/benchmarks.md. `--check` changes nothing and fails if a block is stale.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hotlap.units import duration

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- paste: (?P<what>[A-Za-z0-9_. -]+?) -->\n).*?(<!-- end paste -->)", re.DOTALL)
NOT_YET = "Not measured yet.\n"

Results = Mapping[str, Mapping[str, Any]]


def read(folder: Path) -> Results:
    """Name -> result, of all files that hold a JSON object."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    return {name: result for name, result in found.items() if isinstance(result, dict)}


def pasted(text: str, results: Results) -> str:
    """`text` with all blocks filled anew."""
    return BLOCK.sub(lambda match: f"{match[1]}{block(match['what'], results)}{match[3]}", text)


def block(what: str, results: Results) -> str:
    """What stands in a block.

    Raises:
        ValueError: nobody knows this kind of block.
    """
    kind, *words = what.split()
    name, keys = "".join(words[:1]), words[1:]
    result = results.get(name, {})
    if kind == "claims":
        return table(list(claims(results)))
    if kind == "output":
        return f"```text\n{result['output'].rstrip()}\n```\n" if "output" in result else NOT_YET
    if kind == "table":
        return table([{key: row.get(key) for key in keys or row} for row in result.get("results", [])])
    raise ValueError(f"there is no block {what!r}; known are claims, output NAME, table NAME [KEY ...]")


def claims(results: Results) -> Iterator[dict[str, str]]:
    """Rows of the claims table; each says on what machine and by which file it was measured."""
    for name, result in results.items():
        for claim in result.get("claims", []):
            yield {
                "claim": claim["claim"],
                "measured": value(claim),
                "on": machine(result),
                "by": f"[{name}](benchmarks/results/{name}.json)",
            }


def machine(result: Mapping[str, Any]) -> str:
    """Where it was measured, in a few words."""
    told = result.get("machine", "")
    return ", ".join(f"{key} {word}" for key, word in told.items()) if isinstance(told, dict) else str(told)


def value(claim: Mapping[str, Any]) -> str:
    """ "4.87x [4.71, 5.04]": the middle with its unit, and the interval where there is one."""
    text = f"{number(claim['mid'])}{claim.get('unit', '')}"
    if claim.get("low") is None or claim.get("high") is None:
        return text
    return f"{text} [{number(claim['low'])}, {number(claim['high'])}]"


def number(figure: float) -> str:
    """Three significant digits."""
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.3g}"


def table(rows: list[Any]) -> str:
    """Objects with the same keys -> a Markdown table."""
    if not rows:
        return NOT_YET
    keys = list(rows[0])
    lines = [keys, ["---"] * len(keys), *([cell(key, row.get(key)) for key in keys] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(key: str, content: Any) -> str:
    """A value that cannot break its row; seconds (a key that ends in `_s`) get the unit that fits."""
    if isinstance(content, int | float):
        return duration(content) if key.endswith("_s") and not key.endswith("_per_s") else number(content)
    text = "" if content is None else str(content)
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Fill all blocks; the exit code."""
    parser = argparse.ArgumentParser(description="Fill the marked blocks of README.md and docs/*.md from results.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a block is stale")
    args = parser.parse_args()
    results, stale = read(ROOT / "benchmarks" / "results"), []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        old = path.read_text(encoding="utf-8")
        new = pasted(old, results)
        if new != old:
            stale.append(str(path.relative_to(ROOT)))
            if not args.check:
                path.write_text(new, encoding="utf-8")
    if stale:
        print(f"{'stale' if args.check else 'filled'}: {', '.join(stale)}")
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
