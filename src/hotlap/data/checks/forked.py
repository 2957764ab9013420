"""Copies of this process, as a worker of a DataLoader is one: they answer once, or compute items into shared memory."""

import contextlib
import fcntl
import gc
import os
import pickle
import signal
import stat
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import Pipe, current_process, get_context
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, NoReturn

import torch

from hotlap.data.item.codec import CannotKeep

# What the copy computes are a few items; if that takes longer than this, the script's own workers do it.
LIMIT_S = 60.0

# What is computed is noted this often: it takes 0.2 ms to see that nothing was drawn or changed. More at once, of
# pictures of 28 x 28, are no faster: they no longer lie in a core's cache.
_NOTE_S = 0.02
_MOST_AT_ONCE = 256


def in_a_copy(action: Callable[[], Any], *, timeout_s: float = 0.0) -> Any:
    """What `action` gives, which must be data that can be pickled: only that comes back, and nothing else is left here.

    Arguments:
        timeout_s: what the script itself would wait for items; 0: for ever. They are never waited for longer than
            `LIMIT_S`.

    Raises:
        CannotKeep: it raised, was killed, or took too long.
    """
    limit_s = min(LIMIT_S, timeout_s or LIMIT_S)
    here, there = Pipe(duplex=False)
    read = [(file.number, file.at) for file in _read_files() if file.at is not None and not file.written]
    process = start_copy(_answer, action, there)
    there.close()
    try:
        if not here.poll(limit_s):
            raise CannotKeep(f"the first items took more than {limit_s:g} s")
        failed, answer = pickle.loads(here.recv_bytes())  # written by a copy of this very process
    except (EOFError, OSError) as error:
        raise CannotKeep(f"its first items could not be computed ahead ({error})") from error
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()
        for number, at in read:  # the copy has read on for both
            with contextlib.suppress(OSError):  # another thread has closed it meanwhile
                os.lseek(number, at, os.SEEK_SET)
    if failed:
        raise CannotKeep(answer)
    return answer


def fill_in_copies(
    compute: Callable[[range], bool], *, num_items: int, num_processes: int, item_s: float, limit_s: float
) -> None:
    """Have all items computed in copies of this process; returns when they are done, or the time is over.

    What is computed is noted where all processes see it (`Progress`), so that a copy which is killed in the middle of
    an item leaves nothing behind that would be handed out.

    Arguments:
        compute: called there with positions, whose items it keeps; False: no more.
        item_s: seconds that an item takes.
    """
    owner = os.getpid()
    at_once = max(1, min(_MOST_AT_ONCE, int(_NOTE_S / max(item_s, 1e-7))))

    def fill(number: int) -> NoReturn:
        gc.freeze()  # as `_answer` does
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        torch.set_num_threads(1)
        with contextlib.suppress(Exception):  # the script's code; the script meets it when it asks for that item itself
            for start in range(number * at_once, num_items, num_processes * at_once):
                part = range(start, min(start + at_once, num_items))
                if os.getppid() != owner or not compute(part):
                    break
        os._exit(0)

    processes = [start_copy(fill, number) for number in range(num_processes)]
    until_s = perf_counter() + limit_s
    try:
        for process in processes:
            process.join(max(0.0, until_s - perf_counter()))
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()


def start_copy(target: Callable[..., Any], *args: Any) -> Any:
    """A forked copy of this process that calls `target`, and ends with this one."""
    process = get_context("fork").Process(target=target, args=args, daemon=True)
    with warnings.catch_warnings():
        # "This process is multi-threaded, use of fork() may lead to deadlocks": true of every DataLoader's workers.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _answer(action: Callable[[], Any], there: Any) -> None:
    """IN THE COPY."""
    gc.freeze()  # what is garbage already ends where it was made: files that are removed with it would go twice
    try:
        data = pickle.dumps((False, action()))
    except Exception as error:  # the script's code, or an answer that cannot be sent; its own workers will tell
        ours = type(error).__module__.startswith("hotlap.")  # a sentence by itself
        data = pickle.dumps((True, str(error) if ours else f"{type(error).__name__}: {error}"))
    there.send_bytes(data)


def cannot_fork(*, shares_files: bool = False, waits: bool = False) -> str | None:
    """Why items should not be computed in copies of this process; None if they may.

    Arguments:
        shares_files: the script's own workers are such copies, with whatever is open.
        waits: for `in_a_copy`, which puts back what was read on; not in a file that is written to as well, by
            another thread perhaps.
    """
    if current_process().daemon:
        return "this is a worker process itself"
    # A file whose position is still 0 was never read, or is mapped, or is read in a way that no position matters to.
    shared = (file.name for file in _read_files() if file.at is None or (file.at > 0 and (file.written or not waits)))
    name = None if shares_files else next(shared, None)
    return f"{name} is open for reading, and copies of this process would share its position" if name else None


class _File(NamedTuple):
    number: int
    at: int | None
    """Its position; None: a socket, which has none."""
    name: str
    written: bool


def _read_files() -> Iterator[_File]:
    """What this process reads from."""
    for entry in Path("/proc/self/fd").iterdir():
        number = int(entry.name)
        try:
            mode = os.fstat(number).st_mode
            access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
            at = os.lseek(number, 0, os.SEEK_CUR) if stat.S_ISREG(mode) else None
            name = os.readlink(entry)
        except OSError:
            continue  # closed since the folder was read
        read = access != os.O_WRONLY and (at is not None or stat.S_ISSOCK(mode))
        if read and number > 2 and not name.endswith(" (deleted)"):
            yield _File(number, at, name, written=access == os.O_RDWR)
