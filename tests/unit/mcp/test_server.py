"""The tools and resources of `hotlap mcp`, asked by the client of the protocol's own package."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
import pytest

from hotlap.record import Verdict, save
from tests import sample_measured, samples

# Imported where a test needs it: collecting, which every worker does, takes 3 s of a core less in a new environment.
if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.skipif(
    find_spec("mcp") is None, reason="the package mcp is not installed (pip install 'mcp>=2')"
)

T = TypeVar("T")

TRAINING = """\
import torch
weight = torch.zeros(4, requires_grad=True)
for _ in range(60):
    (torch.randn(8, 4) @ weight - 1).square().mean().backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HOTLAP_STUDIES", raising=False)
    for name, study in {"measured": sample_measured.study_measured(), "tuned": samples.study_full()}.items():
        save(replace(study, cwd=str(tmp_path)), tmp_path / ".hotlap" / name / "study.json")
    return tmp_path


def asked(folder: Path, ask: Callable[[Client], Awaitable[T]]) -> T:
    from mcp import Client

    from hotlap.mcp.server import Server

    async def session() -> T:
        async with Client(Server(folder)) as client:
            return await ask(client)

    return asyncio.run(session())


def told(folder: Path, tool: str, /, **arguments: Any) -> tuple[str, bool]:
    """(text, is it an error?)"""
    from mcp_types import TextContent

    result = asked(folder, lambda client: client.call_tool(tool, arguments))
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text, bool(result.is_error)


def read(folder: Path, uri: str) -> str:
    from mcp_types import TextResourceContents

    (content,) = asked(folder, lambda client: client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


def test_tools_say_what_they_do_and_whether_they_write(folder: Path) -> None:
    tools = {tool.name: tool for tool in asked(folder, lambda client: client.list_tools()).tools}
    assert set(tools) == {"measure", "tune", "check", "apply", "explain"}
    assert all(tool.description and tool.annotations for tool in tools.values())
    assert tools["apply"].annotations is not None and tools["apply"].annotations.destructive_hint
    for tool in tools.values():
        assert "ctx" not in tool.input_schema["properties"]


def test_studies_are_resources_with_what_they_came_to(folder: Path) -> None:
    found = {one.name: one for one in asked(folder, lambda client: client.list_resources()).resources}
    assert found["tuned"].title == "tune: 3.11x as fast"
    assert found["measured"].description
    assert read(folder, str(found["tuned"].uri)).startswith("## 3.11x as fast")
    assert json.loads(read(folder, f"{found['measured'].uri}/json"))["purpose"] == "measure"


@pytest.mark.parametrize("name", ["gone", "..%2Fmeasured"])
def test_a_study_that_is_not_there_is_said_to_be_missing(folder: Path, name: str) -> None:
    from mcp import MCPError

    async def missing(client: Client) -> str:
        with pytest.raises(MCPError) as error:
            await client.read_resource(f"hotlap://studies/{name}")
        return error.value.error.message

    assert name in asked(folder, missing)


def test_a_finding_is_explained(folder: Path) -> None:
    text, is_error = told(folder, "explain", name="input-bound")
    assert text.startswith("input-bound: ") and not is_error


def test_the_patch_of_a_study_is_shown_and_nothing_is_written(folder: Path) -> None:
    before = sorted(path.name for path in folder.rglob("*"))
    text, is_error = told(folder, "apply", study=".hotlap/tuned")
    assert "+    loader = DataLoader(cached(train), batch_size=64, shuffle=True)" in text.splitlines()
    assert not is_error
    assert sorted(path.name for path in folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("measure", {"command": []}, "`command` begins with a script"),
        ("measure", {"command": ["--html", "x"]}, "`command` begins with a script"),
        ("measure", {"command": ["gone.py"]}, "There is no file gone.py"),
        ("measure", {"command": ["gone.py"], "folder": "nowhere"}, "There is no folder"),
        ("tune", {"command": ["gone.py"], "budget": "soon"}, "is not a time"),
        ("tune", {"command": ["train.py"], "levers": ["no-such"]}, "no-such"),
        ("check", {"before": "train.py", "after": "gone.py"}, "There is no file gone.py"),
        ("explain", {"name": "no-such"}, "There is no finding or lever 'no-such'"),
        ("apply", {"study": "gone"}, "There is no study at gone"),
        ("apply", {"way": "sideways"}, "way"),
    ],
)
def test_bad_input_is_an_error_of_one_clear_sentence(
    folder: Path, tool: str, arguments: dict[str, Any], said: str
) -> None:
    (folder / "train.py").write_text("")
    text, is_error = told(folder, tool, **arguments)
    assert is_error
    assert said in text
    assert "Traceback" not in text


def test_a_check_is_concluded_where_nothing_was_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself is replaced: it writes what came of it, and prints nothing."""
    from hotlap.cli.check import conclusion
    from hotlap.mcp import server
    from hotlap.record import encode
    from hotlap.tune.checking import Checked, Speed

    made = Checked(
        verdict=Verdict.UNHARMED, contract="exact", why="", speed=Speed.NOT_SLOWER, step=None, total=None, limit=0.02
    )

    async def quietly(line: list[str], *_: object, **__: object) -> tuple[int, list[str]]:
        Path(line[1].removeprefix("--json=")).write_bytes(encode(made))
        return 0, []

    monkeypatch.setattr(server, "run", quietly)
    text, is_error = told(folder, "check", before="a.py", after="b.py")
    assert not is_error
    assert json.loads(text)["conclusion"] == conclusion("a.py", "b.py", made)


def test_the_study_that_is_named_is_that_of_the_call(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command itself is replaced: another hotlap saves a study before it ends."""
    from hotlap.mcp import server

    async def beside_another(line: list[str], *_: object, **__: object) -> tuple[int, list[str]]:
        made = replace(samples.study_full(), created="2026-11-30T09:00:00+00:00")
        given = dict(word.split("=", 1) for word in line if "=" in word)
        for path in (folder / ".hotlap" / "ours" / "study.json", Path(given["--json"])):
            save(made, path)
        save(replace(made, key="another"), folder / ".hotlap" / "theirs" / "study.json")
        return 0, []

    monkeypatch.setattr(server, "run", beside_another)
    text, is_error = told(folder, "tune", command=["train.py"])
    assert text.startswith("## ") and text.endswith("\nStudy: hotlap://studies/ours\n") and not is_error


@pytest.mark.e2e
def test_a_training_is_measured_over_standard_input_and_output(folder: Path) -> None:
    """The real server: its output is the protocol's alone, and what it is doing comes as progress."""
    from mcp import Client, StdioServerParameters
    from mcp_types import TextContent, TextResourceContents

    (folder / "train.py").write_text(TRAINING)
    doing: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        doing.append(message or "")

    async def session() -> str:
        server = StdioServerParameters(command=sys.executable, args=["-m", "hotlap", "mcp"], cwd=str(folder))
        async with Client(server) as client:
            arguments = {"command": ["train.py"], "quick": True}
            result = await client.call_tool("measure", arguments, progress_callback=note)
            (content,) = result.content
            assert isinstance(content, TextContent) and not result.is_error
            uri = content.text.split()[-1]
            (found,) = (await client.read_resource(f"{uri}/json")).contents
            assert isinstance(found, TextResourceContents)
            return found.text

    assert json.loads(asyncio.run(session()))["state"] == "complete"
    assert "running train.py as it is" in doing


@pytest.mark.e2e
def test_a_call_that_is_cancelled_leaves_nothing_running(folder: Path) -> None:
    import anyio
    from mcp import Client

    from hotlap.mcp.server import Server

    async def session() -> None:
        async with Client(Server(folder)) as client:
            with anyio.CancelScope() as scope:

                async def note(progress: float, total: float | None, message: str | None) -> None:
                    scope.cancel()

                await client.call_tool("tune", {"command": ["--", "sleep", "1000"]}, progress_callback=note)
            assert scope.cancelled_caught

    asyncio.run(session())
    assert [one.name() for one in psutil.Process().children(recursive=True) if one.name() == "sleep"] == []
