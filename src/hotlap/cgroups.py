"""What the control groups of Linux leave to this process: memory, and time on the processor."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
MEMORY = Path("/proc/meminfo")

# A cgroup v1 without a limit shows one near 2**63 (page-rounded).
_NO_LIMIT = 1 << 60


def memory_left_bytes(*, root: Path = ROOT, own: Path = OWN) -> int | None:
    """Bytes until the tightest limit; None without one."""
    left = [bytes_ for folder in _folders("memory", root, own) for _, bytes_ in _memory_in(folder)]
    return max(0, min(left)) if left else None


def available_bytes(*, root: Path = ROOT, own: Path = OWN) -> int:
    """Memory that is free for this process now, limits considered; by no library: see `hotlap.probe.procfs`."""
    free, left = 1024 * int(_rows(MEMORY)["MemAvailable:"].split()[0]), memory_left_bytes(root=root, own=own)
    return free if left is None else min(free, left)


def memory_limit_bytes(*, root: Path = ROOT, own: Path = OWN) -> int | None:
    """The tightest limit, used or not; None without one."""
    return min((limit for folder in _folders("memory", root, own) for limit, _ in _memory_in(folder)), default=None)


def cpu_quota(*, root: Path = ROOT, own: Path = OWN) -> float:
    """Cores that the tightest quota grants; infinity without one."""
    return min((quota for folder in _folders("cpu", root, own) for quota in _quota_of(folder)), default=float("inf"))


def throttled_s(*, root: Path = ROOT, own: Path = OWN) -> float | None:
    """Seconds for which a quota has held the processes of this group still so far; None where nobody counts that."""
    found = [seconds for folder in _folders("cpu", root, own) for seconds in _throttled_in(folder)]
    return max(found, default=None)


def _folders(controller: str, root: Path, own: Path) -> Iterator[Path]:
    """Each cgroup that this process is in, from its own up to the root: a limit may stand at any of them."""
    places = [(root, root), (root / controller, root / controller)]
    for line in (text(own) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            top = root / controller if controllers else root
            places.append((top / path.lstrip("/"), top))
    seen: set[Path] = set()
    for folder, top in places:
        # A container may show a path that is not mounted inside it; the parents still hold.
        for place in (folder, *folder.parents):
            if place.is_relative_to(top) and place not in seen:
                seen.add(place)
                yield place


def _memory_in(folder: Path) -> Iterator[tuple[int, int]]:
    """A limit, and what is left of it."""
    # Version 2 first, then version 1. https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files
    for limit_file, used_file in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, used = _number(folder / limit_file), _number(folder / used_file)
        if limit is not None and used is not None and limit < _NO_LIMIT:
            yield limit, limit - used + _reclaimable(folder / "memory.stat")


def _quota_of(folder: Path) -> Iterator[float]:
    words = (text(folder / "cpu.max") or "").split()
    if len(words) == 2 and words[0].isdigit():
        yield int(words[0]) / int(words[1])
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    if quota and period:
        yield quota / period


def _throttled_in(folder: Path) -> Iterator[float]:
    rows = _rows(folder / "cpu.stat")
    if "throttled_usec" in rows:
        yield int(rows["throttled_usec"]) / 1e6
    elif "throttled_time" in rows:  # version 1, in nanoseconds
        yield int(rows["throttled_time"]) / 1e9


def text(path: Path) -> str | None:
    """A small file of the system's; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _number(path: Path) -> int | None:
    number = (text(path) or "").strip()
    return int(number) if number.isdigit() else None


def _reclaimable(stat: Path) -> int:
    """File pages that the kernel drops before it refuses memory: they count as used, yet are free."""
    rows = _rows(stat)
    return int(rows.get("inactive_file", rows.get("total_inactive_file", 0)))


def _rows(path: Path) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in (text(path) or "").splitlines() if " " in line)
