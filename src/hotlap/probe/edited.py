"""Edited files in a process of the user's command: served where they could not be written, and told where not run.

Nothing is imported at module level but the standard library: each data-loader worker that is not forked comes by here.
"""

import io
import linecache
import os
import sys
from collections.abc import Mapping
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import IO, Any

_STAND_IN = Path(__file__).with_name("stand_in.py")

_texts: dict[str, str] = {}
"""Absolute path -> text, where it is run instead of what is on disk."""
_ran: set[str] = set()
"""Of these, the ones that were asked for."""


def serve(replaced: Mapping[str, str], plan_path: str) -> None:
    """Let imports of these files (absolute path -> text) run that text instead of what is on disk.

    Where they are written in their places (`hotlap.probe.enclose`) there is nothing to do.
    """
    if _texts or not replaced or Path(plan_path).with_name("written").exists():
        return
    _texts.update(replaced)
    for path, text in replaced.items():  # None: it is not asked of the disk again
        linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path
    read_code, open_code = SourceFileLoader.get_code, io.open_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = served(path)
        # Compiled here and now: a cached .pyc on disk belongs to the other text.
        return read_code(self, fullname) if text is None else compile(text, path, "exec", dont_inherit=True)

    def opened(path: str) -> IO[bytes]:
        """By this runpy reads: a worker that is spawned runs the main script once more."""
        text = served(path)
        if text is None:
            return open_code(path)
        from hotlap.record.plan import encoded

        return io.BytesIO(encoded(text))

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010 - a plain assignment to a method is a type error
    io.open_code = opened


def served(path: str) -> str | None:
    """What is run in place of this file; None: what is on disk."""
    name = str(Path(path).resolve())
    if name in _texts:
        _ran.add(name)
    return _texts.get(name)


def main_becomes_stand_in() -> None:
    """Python is about to read its main script by itself, past every hook: where that is served, `stand_in.py` runs it.

    To be called before the main script has begun, in whatever Python the command has started.
    """
    if str(Path(sys.argv[0]).resolve()) in _texts:
        options = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv)]
        os.execv(sys.executable, [*options, str(_STAND_IN), *sys.argv])


def unreached(replaced: Mapping[str, str], sources: Mapping[str, str]) -> tuple[str, ...]:
    """Of `replaced`, the files of which this process has run another text; all, where it has run none of them.

    `sources`: path -> sha256 of what it has loaded, as it is on disk here. A file that was not loaded (so far) is none
    of them where another one was run as it should be.
    """
    from hotlap.record.plan import encoded

    wanted = {path: sha256(encoded(text)).hexdigest() for path, text in replaced.items()}
    reached = {path for path, digest in wanted.items() if path in _ran or sources.get(path) == digest}
    other = tuple(path for path in replaced if path in sources and path not in reached)
    return other if other or reached else tuple(replaced)
