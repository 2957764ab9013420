"""What the kernel says of processes, from /proc.

Not by psutil: it imports Python's `resource`, in whose place a training may have a file of that name beside it, which
would run before the script does.
"""

import mmap
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """Since it began."""

    ran_s: float
    wanted_s: float | None
    """Its threads ran or waited for a core; None where the kernel does not count that."""
    page_faults: int = 0
    """Those that read no file."""


def process(pid: int) -> Process | None:
    """None where it is gone."""
    try:
        words = _stat(PROC / str(pid))
        ran_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None
    try:
        return Process(ran_s, sum(map(wanted_s, (PROC / str(pid) / "task").iterdir())), int(words[7]))
    except (OSError, ValueError):
        return Process(ran_s, None, int(words[7]))


def wanted_s(task: Path) -> float:
    """Seconds that a thread, by its folder, was on a core or waited for one.

    https://docs.kernel.org/scheduler/sched-stats.html

    Raises:
        OSError, ValueError: it is gone, or the kernel does not count that.
    """
    on_core, waiting, _ = (task / "schedstat").read_text().split()
    return (int(on_core) + int(waiting)) / 1e9


def page_fault_s() -> float:
    """Seconds that the kernel takes for a page that is used for the first time, until it is given back."""
    num_pages, page = 1024, mmap.PAGESIZE
    begun = time.perf_counter()
    with mmap.mmap(-1, num_pages * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, num_pages * page, page):
            memory[at] = 1
    return (time.perf_counter() - begun) / num_pages


def _stat(process: Path) -> list[str]:
    """From the third field on: what is before it is its number and its name, which may hold anything."""
    return (process / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def parents() -> dict[int, int]:
    """Each process that there is -> the one that started it."""
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):  # it is gone
                found[int(folder.name)] = int(_stat(folder)[1])
    return found


def lineage(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """The process, and those above it."""
    while pid:
        yield pid
        pid = parents.get(pid, 0)


def words_of(pid: int) -> list[str]:
    """The command that it was started by; none where it is gone."""
    with suppress(OSError):
        return os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).split("\0")
    return []


def is_python(pid: int) -> bool:
    """By its name. torch names its threads, and with the first one the process: "pt_main_thread"."""
    with suppress(OSError):
        return (PROC / str(pid) / "comm").read_bytes().startswith((b"python", b"pt_"))
    return False


def held_bytes() -> tuple[int, int]:
    """Memory of this process; and how much of it belongs to files, or is shared with others."""
    _, held, shared, *_ = map(int, (PROC / "self" / "statm").read_text().split())
    return held * os.sysconf("SC_PAGE_SIZE"), shared * os.sysconf("SC_PAGE_SIZE")


def hotlap_is_gone() -> bool:
    """The process that started this run does not exist any more; False where nobody is known."""
    parent = os.environ.get("HOTLAP_PARENT", "")
    return bool(parent) and not os.path.exists(f"/proc/{parent}")


def peak_rss_bytes() -> int:
    """Most memory that this process has had so far."""
    lines = (PROC / "self" / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def age_s() -> float:
    """Seconds since this process began, to a hundredth."""
    started = int(_stat(PROC / "self")[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
