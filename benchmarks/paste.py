"""Fills README.md, CONTRIBUTING.md and docs/: figures from benchmarks/results/*.json, pages about rules and levers.

A block begins with `<!-- paste: KIND ... -->` and ends with `<!-- end paste -->`. Kinds:

    claims [WHICH ...]    one row for each entry of "claims" in any result. WHICH is the begin of a result's name up to
                          a dash (`aa` takes aa-cpu-2core.json), or NAME:WORD for those claims that begin with WORD
    output NAME [WORDS]   "output" of results/NAME.json, as it was on the terminal; from the first line that begins with
                          WORDS to the next empty one
    table NAME [KEY ...]  "results" of results/NAME.json, a list of objects; the keys are the columns (default: all)
    lab NAME PART ...     what `hotlap lab NAME --json` wrote to results/lab_NAME.json: story, tables, notes

A result that is older than the code that it measures (origin.py) is named below its block; in the README its claims are
left out. What a result has to hold is written in docs/benchmarks.md; the pages are made by pages.py. `--check` changes
nothing and fails if a block is not what its result says; which results are older it takes from the blocks, for each
change of the code would make some older.
"""

import argparse
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lab_markdown
import origin
import pages
from hotlap.units import duration

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"(<!-- paste: (?P<what>[A-Za-z0-9_.:+ -]+?) -->\n).*?(<!-- end paste -->)", re.DOTALL)
NOT_YET = "Not measured yet.\n"
OLDER, LEFT_OUT = "Older than the code that is measured", "Left out, for the code that is measured has changed since"
_NAMED = re.compile(rf"^(?:{OLDER}|{LEFT_OUT}): (.+)\.$", re.MULTILINE)

Results = Mapping[str, Mapping[str, Any]]


def read(folder: Path) -> Results:
    """Name -> result, of all files that hold a JSON object."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    return {name: result for name, result in found.items() if isinstance(result, dict)}


def pasted(text: str, results: Results, *, folder: str = "", older: Collection[str] = ()) -> str:
    """`text` with all blocks filled anew. `folder`: path of the results from there, for links; empty for no links."""
    return BLOCK.sub(
        lambda match: f"{match[1]}{block(match['what'], results, folder=folder, older=older)}{match[3]}", text
    )


def named_older(text: str) -> list[str]:
    """Results that the blocks of a text call older than the code."""
    return [name for names in _NAMED.findall(text) for name in names.split(", ")]


def block(what: str, results: Results, *, folder: str = "", older: Collection[str] = ()) -> str:
    """What stands in a block. `older`: names of results that are older than the code that they measure.

    Raises:
        ValueError: nobody knows this kind of block.
    """
    kind, *words = what.split()
    if kind == "claims":
        return claims_table(words, results, folder=folder, older=older)
    if not words:
        raise ValueError(f"the block {what!r} does not name its result")
    name, *keys = words
    name = f"lab_{name.replace('-', '_')}" if kind == "lab" else name
    result = results.get(name, {})
    if not result:
        return NOT_YET
    below = f"\n{OLDER}: {name}.\n" if name in older else ""
    if kind == "output":
        return f"```text\n{output(str(result.get('output', '')), ' '.join(keys))}```\n"
    if kind == "table":
        return table([{key: row.get(key) for key in keys or row} for row in result.get("results", [])]) + below
    if kind == "lab":
        return "\n".join(filter(None, (lab_markdown.markdown(result, part) for part in keys))) + below
    raise ValueError(f"there is no block {what!r}; known are claims, output, table and lab")


def output(text: str, begin: str) -> str:
    """What a terminal showed, without the blanks that fill its lines; one section of it where `begin` names one, the
    last where it is "answer".

    Raises:
        ValueError: no line begins like that.
    """
    lines = text.rstrip().split("\n")
    if begin == "answer":
        lines = lines[len(lines) - lines[::-1].index("") :]
    elif begin:
        first = next((number for number, line in enumerate(lines) if line.startswith(begin)), None)
        if first is None:
            raise ValueError(f"no line of the output begins with {begin!r}")
        # Lines of a table or a patch are filled with blanks; only the line between two sections is empty.
        lines = lines[first : lines.index("", first) if "" in lines[first:] else None]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def claims_table(which: Sequence[str], results: Results, *, folder: str, older: Collection[str] = ()) -> str:
    """The claims that are wanted (empty: all), and below them which machines they were measured on, and what is older
    than the code; in the README, whose claims have links, those are left out."""
    rows: list[dict[str, str]] = []
    machines: dict[str, list[str]] = {}
    aged = []
    for name, claim in claims(which, results):
        if name in older:
            aged.append(name)
            if folder:
                continue
        told = results[name].get("machine", "")
        processor = told.get("processor") if isinstance(told, dict) else None
        if processor and processor not in machines.setdefault(device(told), []):
            machines[device(told)].append(processor)
        by = f"[{name}]({folder}/{name}.json)" if folder else f"`{name}`"
        rows.append({"claim": claim["claim"], "measured": value(claim), "on": where(told), "by": by})
    known = [f"{device} has one {', or one '.join(processors)}" for device, processors in machines.items() if device]
    below = [f"{'; '.join(known)}."] if known else []
    below += [f"{LEFT_OUT if folder else OLDER}: {', '.join(dict.fromkeys(aged))}."] if aged else []
    return "\n".join(filter(None, (table(rows) if rows or not aged else "", *(f"{line}\n" for line in below))))


def claims(which: Sequence[str], results: Results) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(Name of the result, claim), in the order in which they were asked for."""
    for wanted in which or [""]:
        begin, _, words = wanted.partition(":")
        for name, result in results.items():
            if begin in ("", name) or name.startswith(f"{begin}-"):
                yield from ((name, one) for one in result.get("claims", []) if str(one["claim"]).startswith(words))


def device(told: object) -> str:
    """The short name of a machine."""
    return str(told.get("device", "")) if isinstance(told, dict) else str(told)


def where(told: object) -> str:
    """A machine in one cell: its short name if it has one, and how busy it was."""
    if not isinstance(told, dict):
        return str(told)
    shown = {key: word for key, word in told.items() if key in (("device", "load") if "device" in told else told)}
    return ", ".join(str(word) if key == "device" else f"{key} {word}" for key, word in shown.items())


def value(claim: Mapping[str, Any]) -> str:
    """ "4.87x [4.71, 5.04]": the middle with its unit, and the interval where there is one; no middle of a ratio whose
    interval holds 1."""
    low, high = claim.get("low"), claim.get("high")
    if claim.get("unit") == "x" and low is not None and high is not None and low <= 1 <= high:
        return f"not told from 1x [{number(low)}, {number(high)}]"
    text = f"{number(claim['mid'])}{claim.get('unit', '')}"
    if claim.get("low") is None or claim.get("high") is None:
        return text
    return f"{text} [{number(claim['low'])}, {number(claim['high'])}]"


def number(figure: float) -> str:
    """Three significant digits; no powers of ten below a million."""
    if isinstance(figure, int):
        return f"{figure:,}"
    short = f"{figure:.3g}"
    return f"{float(short):,.0f}" if "e+" in short and abs(figure) < 1e6 else short


def table(rows: list[Any]) -> str:
    """Objects with the same keys -> a Markdown table."""
    if not rows:
        return NOT_YET
    keys = list(rows[0])
    lines = [keys, ["---"] * len(keys), *([cell(key, row.get(key)) for key in keys] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(key: str, content: Any) -> str:
    """A value that cannot break its row; seconds (a key that ends in `_s`) get the unit that fits."""
    if isinstance(content, bool):
        return "yes" if content else "no"
    if isinstance(content, int | float):
        return duration(content) if key.endswith("_s") and not key.endswith("_per_s") else number(content)
    text = "" if content is None else str(content)
    return text.replace("|", "\\|").replace("\n", " ")


def wanted(results: Results, *, check: bool = False) -> Iterator[tuple[Path, str]]:
    """Each file that is filled or made -> what it should be. `check`: what is older is what the file says."""
    older = [] if check else [name for name, result in results.items() if origin.is_older(name, result)]
    made = {DOCS / name: text for name, text in pages.pages().items()}
    yield from made.items()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))):
        if path not in made and path.parent.name not in pages.FOLDERS:
            at, text = "benchmarks/results" if path.parent == ROOT else "", path.read_text(encoding="utf-8")
            yield path, pasted(text, results, folder=at, older=named_older(text) if check else older)


def left_over() -> list[Path]:
    """Pages about rules and levers that are no more."""
    made = {DOCS / name for name in pages.pages()}
    return [path for folder in pages.FOLDERS for path in sorted((DOCS / folder).glob("*.md")) if path not in made]


def main() -> int:
    """Fill and make everything; the exit code."""
    parser = argparse.ArgumentParser(description="Fill the pages from benchmarks/results and docstrings.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if anything is stale")
    check = parser.parse_args().check
    stale = [
        (path, new) for path, new in wanted(read(ROOT / "benchmarks" / "results"), check=check) if current(path) != new
    ]
    gone = left_over()
    if not check:
        for path, new in stale:
            path.parent.mkdir(exist_ok=True)
            path.write_text(new, encoding="utf-8")
        for path in gone:
            path.unlink()
    if stale or gone:
        names = [str(path.relative_to(ROOT)) for path in [*(path for path, _ in stale), *gone]]
        print(f"{'stale' if check else 'filled'}: {', '.join(names)}")
    return 1 if (stale or gone) and check else 0


def current(path: Path) -> str | None:
    """What stands in the file; None without one."""
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
