"""Processor time of the training process and of its children, and which others compute on its cores.

A process that trains under the probe says so in a file of the run's folder, with torch's number of threads. Of all
others /proc tells how many of their threads wanted a core; what else they are cannot be seen from within the namespaces
that a run is enclosed in.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hotlap import cgroups
from hotlap.probe.procfs import Process, is_python, lineage, page_fault_s, parents, process, wanted_s, words_of
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import CpuUse, Neighbour

# A program whose threads want less than half a core leaves the others to the training.
_MIN_WANTED = 0.5


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    own: int
    processes: Mapping[int, Process]
    strangers: Mapping[int, Process]
    throttled_s: float | None
    threads: Mapping[int, float]


class Cpu(Profiler):
    """Passive: the kernel's own counters at the first and at the last recorded step; nothing between."""

    def __init__(self) -> None:
        super().__init__()
        self._looks: list[_Look] = []
        self._announced = False

    def step_ended(self, step: int) -> None:
        """The warm-up is over, or the last recorded step."""
        if not self._announced:
            self._announced = True
            announce(self.session.out)
        schedule = self.session.schedule
        if [schedule.warm, schedule.move.done, False][len(self._looks)]:
            self._looks.append(_look(self.session.thread.id))

    def fields(self) -> Mapping[str, Any]:
        """`Run.cpu`."""
        if len(self._looks) == 1:  # it was over before all was recorded
            self._looks.append(_look(self.session.thread.id))
        if not self._looks or self._looks[1].at <= self._looks[0].at:
            return {}
        first, last = self._looks
        found = neighbours(self.session.out, first.strangers, last.strangers, last.at - first.at)
        return {"cpu": replace(_use(first, last), neighbours=found)}


def usable_cores() -> float:
    """What this process may use: affinity and quota, divided among the processes that train on this host."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1)
    return min(float(len(os.sched_getaffinity(0))), cgroups.cpu_quota()) / max(1, here)


def _look(trainer: int | None) -> _Look:
    above = parents()
    tree = [pid for pid in above if os.getpid() in lineage(pid, above)]
    processes = {pid: seen for pid in tree if (seen := process(pid)) is not None}
    now = time.perf_counter()
    return _Look(now, os.getpid(), processes, strangers(), cgroups.throttled_s(), threads_beside(trainer))


def threads_beside(trainer: int | None) -> Mapping[int, float]:
    """Seconds that each of this process's Python threads but the one that trains, and hotlap's, ran or waited for a
    core."""
    found = {}
    for one in threading.enumerate():
        if one.ident != trainer and not one.name.startswith("hotlap") and one.native_id is not None:
            with contextlib.suppress(OSError, ValueError):
                found[one.native_id] = wanted_s(Path(f"/proc/self/task/{one.native_id}"))
    return found


def _use(first: _Look, last: _Look) -> CpuUse:
    elapsed_s = last.at - first.at
    ran: dict[int, float] = {}
    wanted: dict[int, float | None] = {}
    for pid, now in last.processes.items():
        # A process that began in between (a worker of a new epoch) began at zero.
        before = first.processes.get(pid, Process(0.0, 0.0))
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
        page_faults=_num_faults(first, last) / elapsed_s,
        page_fault_s=min(page_fault_s() for _ in range(3)),
        threads=sum(now - first.threads.get(one, 0.0) for one, now in last.threads.items()) / elapsed_s,
    )


def _num_faults(first: _Look, last: _Look) -> int:
    now, before = (look.processes.get(last.own) for look in (last, first))
    return now.page_faults - before.page_faults if now is not None and before is not None else 0


def announce(out: Path) -> None:
    """This process trains."""
    (out / f"trainer-{os.getpid()}").write_text(str(torch.get_num_threads()))


def strangers() -> Mapping[int, Process]:
    """Python programs that are no part of the run, now."""
    ours, above = {int(os.environ.get("HOTLAP_PARENT") or os.getpid()), os.getpid()}, parents()
    found = {pid: process(pid) for pid in above if is_python(pid) and ours.isdisjoint(lineage(pid, above))}
    return {pid: seen for pid, seen in found.items() if seen is not None}


def neighbours(
    out: Path, first: Mapping[int, Process], last: Mapping[int, Process], elapsed_s: float
) -> tuple[Neighbour, ...]:
    """Between two looks at `strangers`."""
    found = [*_trainers(out)]
    for pid, now in last.items():
        before = first.get(pid)
        if before is None or now.wanted_s is None or before.wanted_s is None or not _shares_cores(pid):
            continue
        wanted = (now.wanted_s - before.wanted_s) / elapsed_s
        if wanted >= _MIN_WANTED:
            found.append(Neighbour(pid=pid, name=_script(pid), threads=wanted, ours=False))
    return tuple(found)


def _trainers(out: Path) -> Iterator[Neighbour]:
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1") or 1) > 1:
        return  # torchrun: the cores are divided among them already (`usable_cores`)
    for path in sorted(out.glob("trainer-*")):
        pid = int(path.name.partition("-")[2])
        if pid != os.getpid() and _shares_cores(pid):
            yield Neighbour(pid=pid, name=_script(pid), threads=float(path.read_text() or 1), ours=True)


def _shares_cores(pid: int) -> bool:
    try:
        return bool(os.sched_getaffinity(pid) & os.sched_getaffinity(0))
    except OSError:
        return False


def _script(pid: int) -> str:
    """Its first argument that is a file of Python's; arguments of the user's stay unread."""
    return next((Path(word).name for word in words_of(pid) if word.endswith(".py")), "")
