"""Folders as the system has them: on what kind of file system, with how much room, and which one caches go to."""

import os
import re
from pathlib import Path

from hotlap import cgroups

_MOUNTS = Path("/proc/self/mountinfo")

# File systems whose files are memory: what is written there cannot be written out.
_MEMORY_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")


def file_system(folder: Path, *, mounts: Path = _MOUNTS) -> str:
    """Kind of the file system that holds this folder, which need not be there yet: "ext4"; "" if nobody can tell."""
    try:
        lines, place = mounts.read_bytes().splitlines(), folder.resolve()
    except OSError:
        return ""
    # "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": https://docs.kernel.org/filesystems/proc.html
    halves = [line.split(b" - ", 1) for line in lines if b" - " in line]
    mounted = [(Path(os.fsdecode(_plain(head.split()[4]))), tail.split()[0]) for head, tail in halves]
    # The deepest one holds it; of two at one place the later one is seen.
    depths = [(len(point.parts), kind) for point, kind in mounted if place.is_relative_to(point)]
    deepest = max((depth for depth, _ in depths), default=0)
    return next((kind.decode() for depth, kind in reversed(depths) if depth == deepest), "")


def _plain(path: bytes) -> bytes:
    """Blanks, tabs, newlines and backslashes are octal numbers in the kernel's list of mounts."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), path)


def lies_in_memory(folder: Path, *, mounts: Path = _MOUNTS) -> bool:
    """True if files of this folder, which need not be there yet, are kept in memory."""
    return file_system(folder, mounts=mounts) in _MEMORY_SYSTEMS


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
