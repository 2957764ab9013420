"""How many bytes this process may still take: what the machine has free, and what its cgroup leaves of it."""

from collections.abc import Iterator
from pathlib import Path

import psutil

# What is left untouched: other processes, the allocator's slack, and the training itself go on growing.
SHARE_OF_FREE = 0.8

# A cgroup v1 without a limit shows one near 2**63 (page-rounded).
_NO_LIMIT = 1 << 60

_ROOT = Path("/sys/fs/cgroup")


def available_bytes(*, root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """Free for this process now, cgroup limits considered."""
    return max(0, min([psutil.virtual_memory().available, *_left_in_cgroups(root, own)]))


def _left_in_cgroups(root: Path, own: Path) -> Iterator[int]:
    for folder in _folders(root, own):
        # Version 2 first, then version 1. https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
        for limit_file, used_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _number(folder / limit_file), _number(folder / used_file)
            if limit is not None and used is not None and limit < _NO_LIMIT:
                yield limit - used + _reclaimable(folder / "memory.stat")


def _folders(root: Path, own: Path) -> Iterator[Path]:
    """Each cgroup that this process is in, from its own up to the root: a limit may stand at any of them."""
    seen: set[Path] = set()
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = root / "memory" if controllers else root
        folder = top / path.lstrip("/")
        # A container may show a path that is not mounted inside it; the parents still hold.
        for place in (folder, *folder.parents):
            if place.is_relative_to(top) and place not in seen:
                seen.add(place)
                yield place


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _reclaimable(stat: Path) -> int:
    """File pages that the kernel drops before it refuses memory: they count as used, yet are free."""
    try:
        rows = dict(line.split(" ", 1) for line in stat.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError):
        return 0
    return int(rows.get("inactive_file", rows.get("total_inactive_file", 0)))
