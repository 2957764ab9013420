"""A Markdown page -> its blocks of code, with what the comment above each says about running it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PYTHON = frozenset({"python"})
SHELL = frozenset({"sh", "bash", "console"})
DATA = frozenset({"toml", "json"})
SHOWN = frozenset({"text", "diff"})
"""What a program printed, or a synopsis: nothing to run."""

# `<!-- run: slow; a whole study with the default budget -->` in the line above a block.
_MARK = re.compile(r"^\s*<!-- run: (?P<when>[a-z]+); (?P<why>.+) -->$")
_FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>```+)(?P<language>[\w+-]*)(?P<rest>.*)$")
_TITLE = re.compile(r'title="([^"]+)"')


class When(StrEnum):
    """Where a block is run."""

    ALWAYS = "always"
    """By `make test`; what a block without a comment means."""
    SLOW = "slow"
    """By `make slow`: it takes minutes."""
    GPU = "gpu"
    """Not by the tests: it needs a GPU."""
    CLUSTER = "cluster"
    """Not by the tests: it needs several machines or a scheduler."""
    CONTAINER = "container"
    """Not by the tests: it needs a container engine."""
    CLONE = "clone"
    """Not as a block: it is a target of the Makefile, or installs, and is run by those who develop hotlap anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Of its fence, counted from 1."""
    language: str
    title: str | None
    """Name of the file that it is the content of; None for commands and statements."""
    code: str
    when: When
    why: str
    """The reason that the comment gives; empty for `ALWAYS`."""

    @property
    def place(self) -> str:
        """ "docs/small.md:12"."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """README, CONTRIBUTING and all of docs/."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    return list(_blocks(page, page.read_text(encoding="utf-8").splitlines()))


def _blocks(page: Path, lines: list[str]) -> Iterator[Block]:
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        if opened is None:
            number += 1
            continue
        begun, indent = number, len(opened["indent"])
        number += 1
        while number < len(lines) and lines[number].strip() != opened["fence"]:
            number += 1
        mark = _MARK.match(lines[begun - 1]) if begun else None
        title = _TITLE.search(opened["rest"])
        yield Block(
            page=page,
            line=begun + 1,
            language=opened["language"],
            title=title[1] if title else None,
            code="".join(f"{line[indent:]}\n" for line in lines[begun + 1 : number]),
            when=When(mark["when"]) if mark else When.ALWAYS,
            why=mark["why"] if mark else "",
        )
        number += 1


def commands(block: Block) -> str:
    """The shell commands of a block: in a `console` the lines behind `$`, for the others are what was printed."""
    if block.language != "console":
        return block.code
    return "".join(f"{line[2:]}\n" for line in block.code.splitlines() if line.startswith("$ "))
