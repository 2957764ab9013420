"""A Python that has imported what a script imports, and forks itself for each run of it.

It is started as the script is, and stops where Python's `site` imports `sitecustomize`: before anything of the script.
Each process that it forks goes on from there as one that was just started: Python itself sets up `sys.path` and runs
the script. Streams, environment, folder and scratch layers are those of its run, and the modules are hidden until the
script imports them (`hotlap.probe.preloaded`). Linux only.

The parent writes to a socket: a line of JSON a message (`hotlap.launch.starting`).
"""

import contextlib
import ctypes
import json
import mmap
import os
import select
import signal
import socket
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hotlap.probe import enclose
from hotlap.probe.preloaded import Preloaded, UnsoundError

_MOST_BYTES = 1 << 16

# Variables that tell nothing of the script; older torch sets the second when it starts CUDA.
_NOT_THE_SCRIPTS = ("HOTLAP_", "CUDA_MODULE_LOADING")

# Its allocator has fork handlers that start it anew or do without it (jemalloc's background_thread.c); Arrow, which
# comes with pandas, starts it.
_HARMLESS = frozenset({"jemalloc_bg_thd"})


def serve(words: str) -> None:
    """Import, tell, fork on request. Returns in the forked processes only. `words`: descriptor, record of imports."""
    descriptor, _, path = words.partition(":")
    channel = socket.socket(fileno=int(descriptor))
    channel.set_inheritable(False)
    try:
        record = json.loads(Path(path).read_bytes())
        preloaded = _preload(record)
        sys.stdout.flush()  # else each fork would print what the imports have printed
        why_not = _why_not()
    except UnsoundError as error:
        why_not = str(error)
    except BaseException as error:
        why_not = f"{type(error).__name__}: {error}"[:200]
    _tell(channel, ready=True, why_not=why_not)
    try:
        request = _forked(channel) if why_not is None else None
    except BaseException:
        os._exit(1)
    if request is None:
        os._exit(0)
    try:
        _become(*request)
        preloaded.hide()
    except BaseException as error:
        os.write(2, f"hotlap: {type(error).__name__}: {error}\n".encode(errors="backslashreplace"))
        os._exit(127)


def _preload(record: dict[str, Any]) -> Preloaded:
    """The modules, as they were in the run that was recorded.

    Raises:
        UnsoundError: they are not.
    """
    _check_names(record)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # installed packages may lie in the user's folder
    try:
        names = [name for name, origin in record["modules"] if origin]
        # Python itself imports runpy before a module that is run by `-m`, and torch imports it too.
        preloaded = Preloaded(["runpy", *names], users=frozenset(record["users"]))
    finally:
        sys.dont_write_bytecode = writes
    for name, origin in record["modules"]:
        found = getattr(getattr(sys.modules.get(name), "__spec__", None), "origin", None)
        if origin and found != origin:
            raise UnsoundError(f"{name} is another module when it is imported ahead")
    environ = record["environ"]
    known = {name for name in {*environ, *os.environ} if not name.startswith(_NOT_THE_SCRIPTS)}
    changed = sorted(name for name in known if environ.get(name) != os.environ.get(name))
    if changed:
        raise UnsoundError(f"the script sets {changed[0]} in its environment")
    if "torch" in sys.modules:
        from hotlap.probe.sites import users_sources

        users_sources(None)  # whose files these are is asked by each fork at its end: it need not find out by itself
    return preloaded


def _check_names(record: dict[str, Any]) -> None:
    if record["barred"]:
        raise UnsoundError(f"the script bars the import of {record['barred'][0]}")
    if record["dlopenflags"] != sys.getdlopenflags():
        raise UnsoundError("the script sets how libraries are loaded")
    names = {*record["users"], *(name for name, _ in record["modules"])}
    for name in ("sitecustomize", "usercustomize"):
        if name in names:
            raise UnsoundError(f"there is a module {name}")


def _why_not() -> str | None:
    """Why a fork would not be what a fresh process is. Threads that end themselves before a fork are no reason."""
    pid = _fork()
    if not pid:
        os._exit("torch" in sys.modules and _is_lost())
    _, status = os.waitpid(pid, 0)
    if status:
        return "what the script imports starts a GPU"
    own = str(os.getpid())
    for task in os.listdir("/proc/self/task"):
        name = Path(f"/proc/self/task/{task}/comm").read_text(encoding="utf-8").strip()
        if task != own and name not in _HARMLESS:
            return f"what the script imports starts threads ({name})"
    return None


def _is_lost() -> bool:
    from hotlap import accelerator  # which imports torch: a script may do without

    return accelerator.is_lost_to_fork()


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads: see `_why_not`
        return os.fork()


def _tell(channel: socket.socket, **message: Any) -> None:
    channel.send(json.dumps(message).encode())


def _forked(channel: socket.socket) -> tuple[dict[str, Any], list[int], int] | None:
    """In a process that was forked: what it is to be, its streams, its parent. None: nobody needs the template."""
    template = os.getpid()
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    children: dict[int, int] = {}
    while True:
        for ready, _ in poller.poll():
            if ready in children:
                poller.unregister(ready)
                _tell(channel, pid=children[ready], status=_status(ready))
                continue
            text, streams, _, _ = socket.recv_fds(channel, _MOST_BYTES, 3)
            if not text:
                _end(children.values())
                return None
            request = json.loads(text)
            if "reap" in request:
                _reap(children, request["reap"])
                continue
            pid = _leading_fork()
            mine = streams if pid else (*children, channel.detach())
            for number in mine:
                os.close(number)
            if not pid:
                return request, streams, template
            descriptor = os.pidfd_open(pid)
            children[descriptor] = pid
            poller.register(descriptor, select.POLLIN)
            _tell(channel, started=pid)


def _end(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def _reap(children: dict[int, int], pid: int) -> None:
    descriptor = next(number for number, child in children.items() if child == pid)
    os.waitpid(children.pop(descriptor), 0)
    os.close(descriptor)


def _leading_fork() -> int:
    """A fork that leads a session of its own, so that a signal to its group reaches it from now on."""
    told, tell = os.pipe()
    pid = _fork()
    if pid:
        os.close(tell)
        os.read(told, 1)
    else:
        os.setsid()
        os.close(tell)
    os.close(told)
    return pid


def _status(descriptor: int) -> int:
    """Exit code, or minus the signal; the process stays until it is reaped, so that its number is nobody else's."""
    ended = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _become(request: dict[str, Any], streams: list[int], template: int) -> None:
    """This forked process takes the place of one that was started."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    environ = json.loads(Path(request["environ"]).read_bytes())
    _move_memory()
    _mark(os.environ["HOTLAP_RUN"], environ["HOTLAP_RUN"])
    os.environ.clear()
    os.environ.update(environ)
    enclose.prepare(request["spec"])
    # Another user namespace takes the wish to end with the parent away.
    enclose.die_with_parent()
    if os.getppid() != template:
        os._exit(1)


def _move_memory() -> None:
    """What this process allocates from now on lies elsewhere than in its siblings, as it does in separate processes.

    Times depend on where things lie: forks that all share one layout would differ less than what users start.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.mmap.restype = ctypes.c_void_p
    drawn = int.from_bytes(os.urandom(4), "little")
    libc.malloc(16 * (1 + drawn % 4096))
    libc.mmap(None, mmap.PAGESIZE * (1 + drawn // 4096 % 4096), 0, mmap.MAP_PRIVATE | mmap.MAP_ANON, -1, 0)


def _mark(before: str, marker: str) -> None:
    """Write `marker` where /proc shows the environment that a process was started with: by it hotlap finds them all."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])  # env_start and env_end: proc(5) counts the two before as well
    place = ctypes.string_at(start, end - start).find(f"HOTLAP_RUN={before}\0".encode())
    if place < 0 or len(before) != len(marker):
        raise OSError("the environment cannot be marked")
    ctypes.memmove(start + place, f"HOTLAP_RUN={marker}".encode(), len(f"HOTLAP_RUN={marker}"))
