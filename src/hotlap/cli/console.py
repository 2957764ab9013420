"""A stream -> what prints on it: as wide as the terminal is, coloured where that is wanted, plain text in a pipe."""

import os
import re
from collections.abc import Iterable
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType

from hotlap.cli.streams import tolerate
from hotlap.report.terminal import WIDTH, print_on


class PipedConsole(Console):
    """Rich's, but for a reader that has left: `hotlap` ends then as other programs do, and not as rich does."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled."""
        raise  # noqa: PLE0704 - which is that error


class _Trimmed:
    """A pipe or a file, which is given no spaces at the ends of lines: rich fills those of a table."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As the stream does it."""
        return self._stream.write(re.sub(" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console(stream: TextIO, color: str = "auto", *, width: int = WIDTH, soft_wrap: bool = False) -> Console:
    """`color` as `--color` has it; `width` is of what has none of its own, a pipe or a file."""
    tolerate(stream)
    terminal = stream.isatty()
    # As for other programs: a log may want colours (https://force-color.org), and NO_COLOR wins.
    wished = bool(os.environ.get("FORCE_COLOR")) and not os.environ.get("NO_COLOR")
    colours = color == "always" or (color == "auto" and (terminal or wished))
    return PipedConsole(
        file=stream if terminal else cast(TextIO, _Trimmed(stream)),
        width=None if terminal else width,
        color_system=None if not colours else "auto" if terminal else "standard",
        no_color=False if color == "always" else None,
        force_terminal=None if terminal else colours,
        force_interactive=None if terminal else False,
        legacy_windows=False,
        highlight=False,
        soft_wrap=soft_wrap,
        _environ=os.environ if terminal else {},
    )


def show(stream: TextIO, sections: Iterable[RenderableType], *, color: str = "auto") -> None:
    """Print sections with a line between them."""
    print_on(console(stream, color), sections)
