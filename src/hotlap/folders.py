"""Folders as the system has them: on what kind of file system, with how much room, and which one caches go to."""

import os
import re
from pathlib import Path

from hotlap import cgroups

# File systems whose files are memory: what is written there cannot be written out.
_MEMORY_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")

MOUNTS = Path("/proc/self/mounts")
"""What is mounted where; read by no library: see `hotlap.probe.procfs`."""


def file_system(folder: Path) -> str:
    """Kind of the file system that holds this folder, which need not be there yet: "ext4"; "" if nobody can tell."""
    try:
        lines, place = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines(), folder.resolve()
    except OSError:
        return ""
    # The deepest one holds it; of two at one place the later one is seen. Blanks in a name are written by their number.
    mounted = (line.split(" ")[1:3] for line in reversed(lines))
    named = [(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), name), kind) for name, kind in mounted]
    return max((one for one in named if place.is_relative_to(one[0])), key=lambda one: len(one[0]), default=("", ""))[1]


def lies_in_memory(folder: Path) -> bool:
    """True if files of this folder, which need not be there yet, are kept in memory."""
    return file_system(folder) in _MEMORY_SYSTEMS


def room_bytes(folder: Path) -> int:
    """Bytes that this user can still write into a folder, which need not be there yet; 0 if nobody can tell.

    Where its files are memory, no more than what memory has free.
    """
    try:
        usage = os.statvfs(_existing(folder))
    except OSError:
        return 0
    room = usage.f_bavail * usage.f_frsize
    return min(room, cgroups.available_bytes()) if lies_in_memory(folder) else room


def _existing(folder: Path) -> Path:
    """The folder, or the first one above it that is there and may be looked at."""
    while not os.access(folder, os.F_OK) and folder != folder.parent:
        folder = folder.parent
    return folder


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/hotlap`, or `~/.cache/hotlap`. Nobody promises that it can be written."""
    # An empty or relative value counts as not set. https://specifications.freedesktop.org/basedir-spec/latest/
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():
        try:
            home = Path.home() / ".cache"
        except RuntimeError:  # no HOME, and a user whom the system does not know: it has none
            home = Path("/nonexistent/.cache")
    return home / "hotlap"
