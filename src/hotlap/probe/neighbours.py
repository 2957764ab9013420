"""Which other processes compute on this one's cores: those of the same command that train, and other Python programs.

A process that trains under the probe says so in a file of the run's folder, with torch's number of threads. Of all
others /proc tells how many of their threads wanted a core; what else they are cannot be seen from within the namespaces
that a run is enclosed in.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import torch

from hotlap.probe.procfs import Process, process
from hotlap.record import Neighbour

# A program whose threads want less than half a core leaves the others to the training.
_MIN_WANTED = 0.5


def announce(out: Path) -> None:
    """This process trains."""
    (out / f"trainer-{os.getpid()}").write_text(str(torch.get_num_threads()))


def strangers() -> Mapping[int, Process]:
    """Python programs that are no part of the run, now."""
    ours = {int(os.environ.get("HOTLAP_PARENT") or os.getpid()), os.getpid()}
    found = {}
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # it is gone
            # torch names its threads, and with the first one the process: "pt_main_thread".
            is_python = one.name().startswith(("python", "pt_"))
            if is_python and ours.isdisjoint(outer.pid for outer in (one, *one.parents())):
                found[one.pid] = process(one.pid)
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
    with contextlib.suppress(psutil.Error):
        return next((Path(word).name for word in psutil.Process(pid).cmdline() if word.endswith(".py")), "")
    return ""
