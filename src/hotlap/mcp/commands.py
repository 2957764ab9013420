"""A hotlap command in a process of its own: words -> what it printed, its status lines told as progress."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.mcpserver.exceptions import ToolError

from hotlap.report.clean import last_lines

Tell = Callable[[str], Awaitable[None]]
"""Told what is being done now."""

# "[12 s of 300 s] timing threads": a status line of a command that has no terminal.
_STATUS = re.compile(r"\[[^\]]*\] (.+)")
_LONGEST_LINE = 1 << 20
# Of what a training printed before it failed, its last lines say why.
_MOST_ERROR_LINES = 60
# A command that is told to end ends its trainings first.
_ENDING_S = 20.0


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
