"""Which other processes compute on this one's cores: those of the same command that train, and other Python programs.

A process that trains under the probe says so in a file of the run's folder, with torch's number of threads. Of all
others /proc tells how many of their threads wanted a core; what else they are cannot be seen from within the namespaces
that a run is enclosed in.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from hotlap.probe.procfs import PROC, Process, process
from hotlap.record import Neighbour

# A program whose threads want less than half a core leaves the others to the training.
_MIN_WANTED = 0.5


def announce(out: Path) -> None:
    """This process trains."""
    (out / f"trainer-{os.getpid()}").write_text(str(torch.get_num_threads()))


def strangers() -> Mapping[int, Process]:
    """Python programs that are no part of the run, now."""
    parent = int(os.environ.get("HOTLAP_PARENT") or os.getpid())
    return {pid: seen for pid in _pythons() if not _descends(pid, parent) and (seen := process(pid)) is not None}


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
        if pid != os.getpid() and (PROC / str(pid)).exists() and _shares_cores(pid):
            yield Neighbour(pid=pid, name=_script(pid), threads=float(path.read_text() or 1), ours=True)


def _pythons() -> Iterator[int]:
    for path in PROC.glob("[0-9]*/comm"):
        try:
            name = path.read_text()
        except OSError:  # it is gone
            continue
        # torch names its threads, and with the first one the process: "pt_main_thread".
        if name.startswith(("python", "pt_")):
            yield int(path.parent.name)


def _descends(pid: int, parent: int) -> bool:
    while pid > 1:
        if pid in (parent, os.getpid()):
            return True
        try:
            pid = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            return False
    return False


def _shares_cores(pid: int) -> bool:
    try:
        return bool(os.sched_getaffinity(pid) & os.sched_getaffinity(0))
    except OSError:
        return False


def _script(pid: int) -> str:
    """Its first argument that is a file of Python's; arguments of the user's stay unread."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((Path(os.fsdecode(word)).name for word in words if word.endswith(b".py")), "")
