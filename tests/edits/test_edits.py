"""Every `NAME.in.py` becomes its `NAME.out.py`, or is refused for the reason that it states.

The examples say themselves, in comments, what is to be done to them:

    # edit: add CALL KEYWORD=VALUE
    # edit: wrap CALL POSITION KEYWORD FUNCTION [ARGUMENT] | IMPORTS
    # edit: statement CALL | HEADER | SUFFIX | IMPORTS
    # edit: before CALL | CODE | IMPORTS
    # edit: behind CALL | CODE | IMPORTS
    # edit: after CODE | IMPORTS
    # refused: PART OF THE SENTENCE
"""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.source import (
    AddArgument,
    CannotEdit,
    Edit,
    InsertAfterImports,
    InsertBefore,
    InsertBehind,
    WrapArgument,
    WrapStatement,
    patch,
    top_of,
)
from tests.edits.sites import sites

EXAMPLES = sorted(Path(__file__).parent.glob("*.in.py"))


def edits_of(path: Path) -> list[Edit]:
    """What the comments in `path` ask for."""
    text = path.read_text()
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return [edit for line in re.findall(r"# edit: (.*)", text) for edit in _edits(line, text, str(path), sha256)]


def _edits(line: str, text: str, path: str, sha256: str) -> list[Edit]:
    kind, _, rest = line.partition(" ")
    parts = [part.strip() for part in rest.split("|")]
    if kind == "after":
        return [InsertAfterImports(site=top_of(path, sha256), code=parts[0], imports=parts[1])]
    return _edits_at_calls(kind, parts, text, path)


def _edits_at_calls(kind: str, parts: list[str], text: str, path: str) -> list[Edit]:
    call, *words = parts[0].split()
    found = sites(text, call, path=path)
    assert found, f"{path} has no call of {call}"
    if kind == "add":
        keyword, _, value = words[0].partition("=")
        return [AddArgument(site=site, keyword=keyword, value=value) for site in found]
    if kind == "wrap":
        position, keyword, function, *given = words
        return [
            WrapArgument(
                site=site,
                position=int(position),
                keyword=keyword,
                function=function,
                arguments="".join(given),
                imports=parts[1],
            )
            for site in found
        ]
    if kind == "before":
        return [InsertBefore(site=site, code=parts[1], imports=parts[2]) for site in found]
    if kind == "behind":
        return [InsertBehind(site=site, code=parts[1], imports=parts[2]) for site in found]
    assert kind == "statement"
    return [WrapStatement(site=site, header=parts[1], suffix=parts[2], imports=parts[3]) for site in found]


def edited(path: Path) -> str:
    return patch(edits_of(path), root=path.parent).texts.get(str(path), path.read_text())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name.removesuffix(".in.py"))
def test_becomes_what_is_shown_or_is_refused_for_the_stated_reason(path: Path) -> None:
    reason = re.search(r"# refused: (.*)", path.read_text())
    if reason:
        with pytest.raises(CannotEdit, match=re.escape(reason[1])) as caught:
            edited(path)
        assert re.search(rf"{re.escape(path.name)}(:\d+)? cannot be edited: ", str(caught.value))
    else:
        assert edited(path) == path.with_name(path.name.replace(".in.", ".out.")).read_text()


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("*.out.py")), ids=lambda path: path.name)
def test_what_is_there_already_is_left_as_it_is(path: Path) -> None:
    assert edited(path) == path.read_text()


def test_imports_are_sorted_where_they_were(tmp_path: Path) -> None:
    for path in Path(__file__).parent.glob("*.in.py"):
        after = path.with_name(path.name.replace(".in.", ".out."))
        if after.exists():
            folder = tmp_path / path.name.partition(".")[0]
            folder.mkdir()
            (folder / "before.py").write_text(path.read_text())
            (folder / "after.py").write_text(after.read_text())
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "I001"]
    command += ["--output-format", "json"]
    found = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    flagged = {(Path(one["filename"]).parent.name, Path(one["filename"]).stem) for one in json.loads(found.stdout)}
    assert {name for name, when in flagged if when == "after" and (name, "before") not in flagged} == set()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 20
