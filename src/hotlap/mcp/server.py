"""Folder -> the server: a tool for each command that somebody calls who is no person, and the studies as resources."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import Resource, ToolAnnotations
from pydantic import Field

import hotlap
from hotlap.cli import storage, words
from hotlap.cli.check import conclusion
from hotlap.cli.options import FAILS, INCONCLUSIVE, SLOWER
from hotlap.errors import HotlapError
from hotlap.record import Study, decode, encode
from hotlap.report import markdown, outcome, story
from hotlap.report.clean import clean_line, last_lines
from hotlap.tune.checking import Checked

INSTRUCTIONS = """\
hotlap makes PyTorch training scripts faster and checks that they train the same.
`measure` says where the time of a step goes and what could be gained at best; it takes about a minute. `tune` tries
changes and proves which of them help; `apply` writes what it found. After an edit of your own, `check` compares the
script before and after it: whether it is faster, and whether it still trains the same. Believe an interval, not its
middle: where it includes 1, nothing was gained. Scripts run unchanged, and what they write is thrown away.
One training runs at a time, since two would disturb each other's times.
"""

Told = Context[Any, Any]
Command = Annotated[
    list[str],
    Field(
        description="The training as behind `python`: ['train.py', '--lr', '0.1'] or ['-m', 'package.train']; "
        "or ['--', 'torchrun', ...] for another program"
    ),
]
Folder = Annotated[str, Field(description="The folder that the training is started in")]
Budget = Annotated[str, Field(description="Time for all of it, as in 90s, 5m or 1h")]
Levers = Annotated[list[str], Field(description="Names of levers; `explain` with the name `all` lists them")]
StudyName = Annotated[
    str | None, Field(description="Name or folder of a study, as in train-20260504-093000, or a script, for its newest")
]

_LOOKS = ToolAnnotations(read_only_hint=True)
# They run the user's training: with what that does beyond its folder, they change the world as it does.
_RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True)

Tell = Callable[[str], Awaitable[None]]
"""Told what is being done now."""

# "[12 s of 300 s] timing threads": a status line of a command that has no terminal.
_STATUS = re.compile(r"\[[^\]]*\] (.+)")
_LONGEST_LINE = 1 << 20
# Of what a training printed before it failed, its last lines say why.
_MOST_ERROR_LINES = 60
# A command that is told to end ends its trainings first.
_ENDING_S = 20.0


class Server(MCPServer[Any]):
    """Speaks for hotlap in `folder`, and in any that a tool is given."""

    def __init__(self, folder: Path) -> None:
        super().__init__("hotlap", version=hotlap.__version__, instructions=INSTRUCTIONS, log_level="WARNING")
        self._folder = folder
        self._folders = {folder: None}
        self._alone = anyio.Lock()
        # A text is not told a second time as an object with one key.
        self.add_tool(self.measure, annotations=_RUNS, structured_output=False)
        self.add_tool(self.tune, annotations=_RUNS, structured_output=False)
        self.add_tool(self.check, annotations=_RUNS)
        self.add_tool(self.apply, annotations=_WRITES, structured_output=False)
        self.add_tool(self.explain, annotations=_LOOKS, structured_output=False)
        self.resource("hotlap://studies/{name}", mime_type="text/markdown")(self._report)
        self.resource("hotlap://studies/{name}/json", mime_type="application/json")(self._json)

    # Tools: their docstrings are what a client shows

    async def measure(self, ctx: Told, command: Command, folder: Folder = ".", quick: bool = False) -> str:
        """Find where the time of a training step goes, by line and cause, and what could be gained at best.

        `quick` runs the script once only: less is known of noise.
        """
        options = ["--quick"] if quick else []
        return await self._studied(ctx, "measure", options, command, folder, budget_s=None)

    async def tune(
        self,
        ctx: Told,
        command: Command,
        folder: Folder = ".",
        budget: Budget = "5m",
        levers: Levers = [],  # noqa: B006 - read only, and the default that the schema shows
        skip: Levers = [],  # noqa: B006
    ) -> str:
        """Try what makes a training script faster, prove what helps and that it trains the same, and make a patch.

        Nothing is changed: `apply` writes the patch. A call that is cancelled can be made again and goes on.
        """
        budget_s = _seconds(budget)
        options = [f"--budget={budget}", *_named("levers", levers), *_named("skip", skip)]
        return await self._studied(ctx, "tune", options, command, folder, budget_s=budget_s)

    async def check(
        self,
        ctx: Told,
        before: str,
        after: str,
        arguments: Annotated[list[str], Field(description="What both scripts are given")] = [],  # noqa: B006
        folder: Folder = ".",
        budget: Budget = "5m",
        numerics: Literal["exact", "rounding", "statistical"] = "statistical",
        max_regression: str = "2%",
    ) -> dict[str, Any]:
        """Judge an edit: is the script `after` not slower than `before`, and does it train the same?

        `numerics` is what it must keep at least: every bit, all but rounding, or what another seed changes.
        `exit_code` 0: the same training, and not slower; 10: it trains differently; 11: inconclusive; 12: slower.
        """
        options = [f"--budget={budget}", f"--numerics={numerics}", f"--max-regression={max_regression}"]
        fine = (0, FAILS, INCONCLUSIVE, SLOWER)
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "checked.json"
            line = ["check", f"--json={path}", *options, before, after, *arguments]
            code, _ = await self._run(ctx, line, folder, budget_s=_seconds(budget), fine=fine, trains=True)
            found = path.read_bytes()
        # Nothing was printed where pyproject.toml says `quiet`.
        sentence = conclusion(before, after, decode(found, Checked))
        return {"exit_code": code, "conclusion": sentence, **json.loads(found)}

    async def apply(
        self,
        ctx: Told,
        folder: Folder = ".",
        way: Annotated[
            Literal["diff", "write", "revert"],
            Field(description="diff: show the patch; write: into the files; revert: take it back"),
        ] = "diff",
        study: StudyName = None,
        only: Levers = [],  # noqa: B006
        without: Levers = [],  # noqa: B006
    ) -> str:
        """Show, write or take back the patch that `tune` came to (by default of the newest study that has one)."""
        line = ["apply", *([] if way == "write" else [f"--{way}"]), *_named("only", only), *_named("without", without)]
        return await self._printed(ctx, [*line, *([study] if study else [])], folder)

    async def explain(self, ctx: Told, name: str) -> str:
        """Explain a finding (input-bound) or a lever (cached-dataset): what, why, an example, when it hurts.

        The name `all` lists both.
        """
        return await self._printed(ctx, ["explain", name], ".")

    # What they share

    async def _studied(
        self, ctx: Told, name: str, options: Sequence[str], command: Sequence[str], folder: str, budget_s: float | None
    ) -> str:
        if not command or (command[0].startswith("-") and command[0] not in ("-m", "--")):
            raise ToolError("`command` begins with a script, or with -m and a module, or with -- and a program.")
        with tempfile.TemporaryDirectory() as temporary:
            whole = Path(temporary) / "whole.json"
            line = [name, *options, f"--json={whole}", *command]
            await self._run(ctx, line, folder, budget_s=budget_s, trains=True)
            made = storage.read(whole)
        # Another hotlap may have saved a newer one.
        kept = (
            path
            for path, one in storage.known(self._place(folder))
            if (one.created, one.key) == (made.created, made.key)
        )
        return markdown.render(made) + "".join(f"\nStudy: {_uri(path)}\n" for path in islice(kept, 1))

    async def _printed(self, ctx: Told, line: Sequence[str], folder: str) -> str:
        _, printed = await self._run(ctx, line, folder)
        return "".join(f"{one}\n" for one in printed)

    async def _run(
        self,
        ctx: Told,
        line: Sequence[str],
        folder: str,
        *,
        budget_s: float | None = None,
        fine: Sequence[int] = (0,),
        trains: bool = False,
    ) -> tuple[int, list[str]]:
        begun = time.monotonic()

        async def tell(doing: str) -> None:
            spent = time.monotonic() - begun
            await ctx.report_progress(spent if budget_s is None else min(spent, budget_s), budget_s, doing)

        async with self._alone if trains else contextlib.nullcontext():
            return await run(line, self._place(folder), tell, fine=fine)

    def _place(self, folder: str) -> Path:
        place = (self._folder / folder).resolve()
        self._folders[place] = None
        return place

    # Resources

    async def list_resources(self) -> list[Resource]:
        """The studies in the server's folder, and in those that its tools worked in."""
        return [
            Resource(
                uri=_uri(path),
                name=path.parent.name,
                title=f"{study.purpose.value}: {outcome.conclusion(study).title}",
                description=clean_line(story.script(study)),
                mime_type="text/markdown",
            )
            for folder in self._folders
            for path, study in storage.known(folder)
        ]

    def _report(self, name: str) -> str:
        """A study as Markdown: the answer, the patch, findings, bounds, trials."""
        return markdown.render(self._study(name))

    def _json(self, name: str) -> str:
        """A study, whole: every key is described in the docs, in the record."""
        return encode(self._study(name)).decode()

    def _study(self, name: str) -> Study:
        for folder in self._folders:
            for path in storage.studies(folder):
                if path.parent.name == name:
                    return storage.read(path)
        raise ResourceNotFoundError(f"There is no study {name}.")


def _uri(path: Path) -> str:
    """Of a study's file."""
    return f"hotlap://studies/{path.parent.name}"


def _seconds(budget: str) -> float:
    try:
        return words.seconds(budget, "budget")
    except HotlapError as error:
        raise ToolError(str(error)) from None


def _named(option: str, names: Sequence[str]) -> list[str]:
    return [f"--{option}={','.join(names)}"] if names else []


async def run(words: Sequence[str], folder: Path, tell: Tell, *, fine: Collection[int] = (0,)) -> tuple[int, list[str]]:
    """`hotlap WORDS` in `folder` -> its exit code, and what it printed, status lines left out; a call that is cancelled
    interrupts it as Ctrl-C does.

    Raises:
        ToolError: its exit code is none of the `fine` (the command's own message), or there is no such folder.
    """
    if not folder.is_dir():
        raise ToolError(f"There is no folder {folder}. Give the one that the script is started in.")
    with tempfile.TemporaryFile() as errors:
        # -P: a module in that folder is the training's, not ours.
        process = await anyio.open_process(
            [sys.executable, "-P", "-m", "hotlap", *words], stdin=subprocess.DEVNULL, stderr=errors, cwd=folder
        )
        try:
            lines = await _read(process, tell)
            code = await process.wait()
        finally:
            await _end(process)
        if code not in fine:
            errors.seek(0)
            told = last_lines(errors.read().decode(errors="backslashreplace"), _MOST_ERROR_LINES)
            raise ToolError(told or f"`hotlap {words[0]}` left with exit code {code}.")
    return code, lines


async def _read(process: Process, tell: Tell) -> list[str]:
    assert process.stdout is not None
    stream = BufferedByteReceiveStream(process.stdout)
    lines: list[str] = []
    while True:
        try:
            line = (await stream.receive_until(b"\n", _LONGEST_LINE)).decode(errors="backslashreplace")
        except anyio.IncompleteRead:
            return lines
        status = _STATUS.fullmatch(line)
        if status is None:
            lines.append(line)
        else:
            await tell(status[1])


async def _end(process: Process) -> None:
    """Nothing of it is left."""
    if process.returncode is None:
        with anyio.CancelScope(shield=True):
            process.send_signal(signal.SIGINT)
            with anyio.move_on_after(_ENDING_S):
                await process.wait()
            if process.returncode is None:
                process.kill()
    await process.aclose()
