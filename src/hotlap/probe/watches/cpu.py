"""Processor time of the training process and of its children, and how many of their threads wanted a core."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap import cgroups
from hotlap.levers.lever import Patch
from hotlap.probe.watches.watch import Watch
from hotlap.record import CpuUse

if TYPE_CHECKING:
    from hotlap.probe.session import Session

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class _Process:
    """Seconds since it began."""

    ran_s: float
    wanted_s: float | None
    """Its threads ran or waited for a core; None where the kernel does not count that."""


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    own: int
    processes: Mapping[int, _Process]
    throttled_s: float | None


class Cpu(Watch):
    """Passive, Linux only: the kernel's own counters at the first and at the last recorded step; nothing between."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._first: _Look | None = None
        self._last: _Look | None = None

    def install(self, session: "Session", patch: Patch) -> None:
        """Only the schedule is needed."""
        self._session = session

    def step_ended(self, step: int) -> None:
        """The warm-up is over, or the last recorded step."""
        if self._session is None or self._last is not None:
            return
        schedule = self._session.schedule
        if self._first is None:
            if schedule.warm:
                self._first = _look()
        elif schedule.move.done:
            self._last = _look()

    def fields(self) -> Mapping[str, Any]:
        """`Run.cpu`."""
        last = self._last or (_look() if self._first is not None else None)
        if self._first is None or last is None or last.at <= self._first.at:
            return {}
        return {"cpu": _use(self._first, last)}


def usable_cores() -> float:
    """What this process may use: affinity and quota, divided among the processes that train on this host."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1)
    return min(float(affinity), cgroups.cpu_quota()) / max(1, here)


def _look() -> _Look | None:
    if not (_PROC / "self/task").exists():
        return None
    processes = {pid: seen for pid in _tree(os.getpid()) if (seen := _process(pid)) is not None}
    return _Look(time.perf_counter(), os.getpid(), processes, cgroups.throttled_s())


def _tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    found = [root]
    for pid in found:
        try:
            for task in (_PROC / str(pid) / "task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:  # it is gone, or the kernel has no such file
            continue
    return found


def _process(pid: int) -> _Process | None:
    try:
        words = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ran_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return None
    wanted_ns = 0
    try:
        # https://docs.kernel.org/scheduler/sched-stats.html: time on a core, time waiting for one.
        for task in (_PROC / str(pid) / "task").iterdir():
            ran, waited, _ = (task / "schedstat").read_text().split()
            wanted_ns += int(ran) + int(waited)
    except (OSError, ValueError):
        return _Process(ran_s, None)
    return _Process(ran_s, wanted_ns / 1e9)


def _use(first: _Look, last: _Look) -> CpuUse:
    elapsed_s = last.at - first.at
    ran: dict[int, float] = {}
    wanted: dict[int, float | None] = {}
    for pid, now in last.processes.items():
        # A process that began in between (a worker of a new epoch) began at zero.
        before = first.processes.get(pid, _Process(0.0, 0.0))
        ran[pid] = max(0.0, now.ran_s - before.ran_s) / elapsed_s
        known = now.wanted_s is not None and before.wanted_s is not None
        # Threads that ended in between take their counters with them.
        wanted[pid] = max(0.0, (now.wanted_s or 0.0) - (before.wanted_s or 0.0)) / elapsed_s if known else None
    counted = [value for value in wanted.values() if value is not None]
    children = [value for pid, value in wanted.items() if pid != last.own and value is not None]
    throttled = None
    if first.throttled_s is not None and last.throttled_s is not None:
        throttled = min(1.0, max(0.0, last.throttled_s - first.throttled_s) / elapsed_s)
    return CpuUse(
        usable_cores=usable_cores(),
        main=ran.get(last.own, 0.0),
        others=sum(ran.values()) - ran.get(last.own, 0.0),
        runnable=sum(counted) if len(counted) == len(wanted) else None,
        throttled=throttled,
        busiest_worker=max(children, default=None),
    )
