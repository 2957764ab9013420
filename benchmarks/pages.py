"""Docstrings of rules and levers -> docs/rules.md, docs/levers.md, and a page for each; paste.py writes them."""

import ast
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import unified_diff
from textwrap import dedent
from types import ModuleType

from hotlap import levers, rules

FOLDERS = ("levers", "rules")
"""Below docs/; every page in them is made here."""

_NOTE = "<!-- Made from docstrings in src/hotlap by benchmarks/paste.py; change those. -->\n"
# Of those that do something on a device alone: what tests/device/levers.py and studies on real ones showed.
_HELD = "**The gate has passed it on an H100 and an H200**; no study there has accepted it ([what has run](../gpu.md))."
_CACHE_ALONE = "**On an H100 and an H200 its cache alone was timed**, by a fault since fixed ([what](../gpu.md))."
_ON_GPUS = {
    "bf16-autocast": _HELD,
    "cudnn-benchmark": _HELD,
    "device-resident": _CACHE_ALONE,
    "pin-and-overlap": _HELD,
    "tf32": _HELD,
}
_TITLES = ("What it says", r"Why it \w+(?: \w+)?", "Example", "Risk", "What", "What it promises", "Why")
_HEADING = re.compile(rf"^({'|'.join(_TITLES)}|When it hurts|When data change): ", re.MULTILINE)
_ISSUE = re.compile(r"(?:\b([\w-]+/[\w.-]+)|(?<![\w.-]))#(\d{3,})\b")

_LEVERS = f"""\
# What hotlap tries

{_NOTE}
Each lever looks at the state of the script and at what can go wrong before it is tried, is timed against the script
without it, and is held by [the gate](gate.md) to what it says about numbers: `exact` (losses equal bit for bit),
`rounding` (as far apart as rounding alone puts them), `statistical` (no worse than another seed), `recipe` (another
training; tried on request only). A lever of scope `step` is switched inside one process; the others are compared
between processes. `hotlap tune --levers NAME train.py` tries one alone.
"""

_RULES = f"""\
# What hotlap finds

{_NOTE}
Each finding has a code that stays the same, what it costs of each step, and one sentence with numbers. What is to be
had without it is told as "at most" where that is all of a phase, and as "about" where it was estimated, or timed in
turns. They come costliest first. A cause takes the place of what it explains: a finding is left out when one of its
causes accounts for at least half of its cost. `compute-bound`, which is no fault, is said where there is nothing else.
"""


def pages() -> Mapping[str, str]:
    """Path below docs/ -> text."""
    made = {
        "levers.md": "\n".join([_LEVERS, *_lever_rows()]) + "\n",
        "rules.md": "\n".join([_RULES, *_rule_rows()]) + "\n",
    }
    made |= {f"levers/{kind.name}.md": "\n".join(_lever_page(kind)) for kind in (*levers.ALL, *levers.RECIPES)}
    return made | {f"rules/{code}.md": "\n".join(_rule_page(code)) for code in rules.ALL}


def _lever_rows() -> Iterator[str]:
    yield "| lever | what it does | scope | numbers |\n|---|---|---|---|"
    for kind in (*levers.ALL, *levers.RECIPES):
        yield f"| [{kind.name}](levers/{kind.name}.md) | {_lever_text(kind)[0]} | `{kind.scope}` | `{kind.numerics}` |"


def _rule_rows() -> Iterator[str]:
    yield "| finding | what it says |\n|---|---|"
    for code in rules.ALL:
        yield f"| [{code}](rules/{code}.md) | {_rule_text(code)[0]} |"


def _lever_page(kind: type[levers.Lever]) -> Iterator[str]:
    title, text = _lever_text(kind)
    settings = ", ".join(f"`{field.name}`" for field in fields(kind))  # type: ignore[arg-type]  # all are dataclasses
    yield f"# {kind.name}\n\n{_NOTE}\n{title}\n"
    ranks = " Also tried where [several processes train together](../howto/ddp.md)." if kind.across_ranks else ""
    yield f"Scope `{kind.scope}`, numbers `{kind.numerics}`{f', settings {settings}' if settings else ''}.{ranks}\n"
    yield _shown(text)
    if kind.name in _ON_GPUS:
        yield f"\n{_ON_GPUS[kind.name]}"
    named_by = [code for code in rules.ALL if kind.name in _levers_of(code)]
    if named_by:
        yield f"\n**Findings that name it:** {_links(named_by, '../rules')}."
    option, how = ("--allow", "on request") if kind in levers.RECIPES else ("--levers", "alone")
    yield f"\nTo try it {how}: `hotlap tune {option} {kind.name} train.py`. All levers: [the list](../levers.md).\n"


def example(text: str) -> tuple[str, str]:
    """Explanation of a finding -> a few lines before and after its remedy; a command begins with "$ "."""
    before, _, after = text.partition("\nBefore:\n")[2].partition("\nAfter:\n")
    return dedent(before).strip(), dedent(after).strip()


def _rule_page(code: str) -> Iterator[str]:
    title, text = _rule_text(code)
    yield f"# {code}\n\n{_NOTE}\n{title}\n\n{_shown(text.partition('Before:')[0])}"
    before, after = (one.splitlines() for one in example(rules.EXPLANATIONS[code]))
    _, _, _, *lines = unified_diff(before, after, n=len(before), lineterm="")
    yield "\n".join(("\n**Before and after:**\n\n```diff", *lines, "```"))
    limits = _limits(_module(code))
    if limits:
        where = (f"{', '.join(named)} (reasons in `src/hotlap/rules/{path}`)" for path, named in limits.items())
        yield f"\n**Limits:** {'; '.join(where)}."
    tried = _levers_of(code)
    if tried:
        yield f"\n**Worth trying, depending on what is seen:** {_links(tried, '../levers')}."
    causes = [cause for cause, explained in rules.EXPLAINS.items() if code in explained]
    if causes:
        yield f"\n**Left out when it is explained by:** {_links(causes)}."
    if rules.EXPLAINS.get(code):
        yield f"\n**Explains:** {_links(sorted(rules.EXPLAINS[code]))}."
    yield "\nAll findings: [the list](../rules.md).\n"


def _lever_text(kind: type[levers.Lever]) -> tuple[str, str]:
    """(First sentence, the rest) of its docstring."""
    title, _, text = (inspect.getdoc(kind) or "").partition("\n\n")
    return " ".join(title.split()), text


def _rule_text(code: str) -> tuple[str, str]:
    """(What it is, the rest) of its module's docstring, which begins with the code."""
    title, _, text = (_module(code).__doc__ or "").partition("\n\n")
    what = " ".join(title.split()).partition(": ")[2]
    return what[:1].upper() + what[1:], text


def _module(code: str) -> ModuleType:
    return importlib.import_module(rules.ALL[code].__module__)


def _levers_of(code: str) -> list[str]:
    """Levers that the source of a rule names, in the order of the list; those that are not there yet are left out."""
    tree = ast.parse(inspect.getsource(_module(code)))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return [kind.name for kind in levers.ALL if kind.name in words]


def _limits(rule: ModuleType) -> dict[str, list[str]]:
    """File of the rules -> limits that stand there, with their values: a rule may share one that another file has."""
    shared = [node for node in ast.walk(ast.parse(inspect.getsource(rule))) if isinstance(node, ast.ImportFrom)]
    found = defaultdict[str, list[str]](list)
    for name, value in vars(rule).items():
        if name.startswith("MIN_") and isinstance(value, int | float):
            whose = next((one.module for one in shared if name in {alias.name for alias in one.names}), rule.__name__)
            found[f"{str(whose).rpartition('.')[2]}.py"].append(f"`{name}` {value:g}")
    return found


def _shown(text: str) -> str:
    """The sections of a docstring as Markdown; issues of other projects become links."""
    return _HEADING.sub(r"\n**\1:** ", _linked(text.strip())).lstrip()


def _linked(text: str) -> str:
    """Issues as links; a number alone belongs to the project that was named last."""
    last = ""

    def link(issue: re.Match[str]) -> str:
        nonlocal last
        last = issue[1] or last
        return f"[{issue[0]}](https://github.com/{last}/issues/{issue[2]})" if last else issue[0]

    return _ISSUE.sub(link, text)


def _links(names: list[str], folder: str = ".") -> str:
    return ", ".join(f"[{name}]({name}.md)" if folder == "." else f"[{name}]({folder}/{name}.md)" for name in names)
