"""Files that items are read from: their times and sizes as they were, in this process and in copies of it."""

import contextlib
import fcntl
import functools
import json
import os
import stat
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

# Read while items are computed, but nothing of theirs.
_CODE = (".py", ".pyc", ".so", ".pth")

Stamp = tuple[int, int]
"""(time of the last change in ns, bytes); (-1, -1) for what is not there."""


@final
class OpenedFiles:
    """Names of files and folders, and what they were like when they were noted."""

    def __init__(self, *, shared: bool = False) -> None:
        """`shared`: copies of this process, made from now on, note files here as well."""
        self._stamps: dict[str, Stamp] = {}
        self._differs: str | None = None
        self._process = os.getpid()
        self._read_bytes = 0
        self._log = os.memfd_create("hotlap", os.MFD_CLOEXEC) if shared else -1
        if shared:
            weakref.finalize(self, os.close, self._log).atexit = False
            fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)  # each write whole, whoever else writes

    def __bool__(self) -> bool:
        self._read_log()
        return bool(self._stamps)

    def names(self) -> Iterable[str]:
        """Whole paths."""
        self._read_log()
        return self._stamps.keys()

    @contextlib.contextmanager
    def opened_by_items(self) -> Iterator[None]:
        """Within this, each file that Python opens for reading, in any thread, is noted before it is."""
        _listen()
        _NOTING.append(self)
        try:
            yield
        finally:
            _NOTING.remove(self)

    def note(self, path: Any, *, only_files: bool = False) -> None:
        """A file, or a folder whose entries matter; `only_files`: nothing is noted if it is none."""
        name = os.path.abspath(os.fsdecode(path))
        if name in self._stamps:
            return
        found = _found(name)
        kind = None if found is None else stat.S_IFMT(found.st_mode)
        if kind != stat.S_IFREG and (only_files or kind not in (None, stat.S_IFDIR)):
            return
        self._stamps[name] = stamp = _stamp(found)
        if self._log >= 0 and os.getpid() != self._process:
            os.write(self._log, json.dumps([name, *stamp]).encode() + b"\n")

    def changed(self) -> str | None:
        """The first that is no longer what it was, or was not the same for all who read it."""
        self._read_log()
        for name, stamp in self._stamps.items():
            if _stamp(_found(name)) != stamp:
                return name
        return self._differs

    def _read_log(self) -> None:
        if self._log < 0 or os.getpid() != self._process:
            return
        data = b""
        while part := os.pread(self._log, 1 << 20, self._read_bytes + len(data)):
            data += part
        data = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(data)
        for line in data.splitlines():
            name, *stamp = json.loads(line)
            if self._stamps.setdefault(name, tuple(stamp)) != tuple(stamp):
                self._differs = name


def _found(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except (OSError, ValueError):
        return None


def _stamp(found: os.stat_result | None) -> Stamp:
    return (-1, -1) if found is None else (found.st_mtime_ns, found.st_size)


# Who is to be told, the last one first. Hooks of Python's own auditing cannot be taken away again, so there is one for
# the process, which returns at once when nobody listens (0.1 us; nothing that training does in a step is audited).
_NOTING: list[OpenedFiles] = []


@functools.cache
def _listen() -> None:
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _NOTING or event not in ("open", "os.listdir", "os.scandir"):
        return
    path = arguments[0]
    if isinstance(path, int) or path is None:
        return
    with contextlib.suppress(Exception):  # what is raised here would stop the script from opening its file
        if event == "open":
            flags = arguments[2]
            writes = flags & (os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            if writes or os.fsdecode(path).endswith(_CODE):
                return
        _NOTING[-1].note(path)


def reads_unnamed_files(action: Callable[[], object]) -> bool:
    """True if this thread reads from somewhere while it does that."""
    before = _num_reads()
    action()
    after = _num_reads()
    return before is not None and after is not None and after - before > 1  # to ask is one itself


def _num_reads() -> int | None:
    try:
        with open("/proc/thread-self/io", "rb", buffering=0) as file:
            # "rchar: 2012\nwchar: 0\nsyscr: 7\n...": https://docs.kernel.org/filesystems/proc.html
            return int(file.read(512).split()[5])
    except (OSError, ValueError, IndexError):
        return None
