"""What the kernel says of processes, from /proc."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """Seconds since it began."""

    ran_s: float
    wanted_s: float | None
    """Its threads ran or waited for a core; None where the kernel does not count that."""


def process(pid: int) -> Process | None:
    """None where it is gone."""
    try:
        words = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ran_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None
    try:
        return Process(ran_s, sum(map(wanted_s, (PROC / str(pid) / "task").iterdir())))
    except (OSError, ValueError):
        return Process(ran_s, None)


def wanted_s(task: Path) -> float:
    """Seconds that a thread, by its folder, was on a core or waited for one.

    https://docs.kernel.org/scheduler/sched-stats.html

    Raises:
        OSError, ValueError: it is gone, or the kernel does not count that.
    """
    on_core, waiting, _ = (task / "schedstat").read_text().split()
    return (int(on_core) + int(waiting)) / 1e9


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
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
