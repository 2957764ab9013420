"""Something done in a copy of this process, of which only the answer comes back: it leaves no trace here."""

import contextlib
import fcntl
import gc
import os
import pickle
import stat
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import Pipe, current_process, get_context
from pathlib import Path
from typing import Any, NamedTuple

# What the copy computes are a few items; if that takes longer than this, the script's own workers do it.
LIMIT_S = 60.0


class NoAnswer(Exception):  # noqa: N818 - reads as the sentence "no answer"
    """The copy failed; the message says why."""


def in_a_copy(action: Callable[[], Any], *, timeout_s: float = 0.0) -> Any:
    """What `action` gives, which must be data that can be pickled.

    Arguments:
        timeout_s: what the script itself would wait for items; 0: for ever. They are never waited for longer than
            `LIMIT_S`.

    Raises:
        NoAnswer: it raised, was killed, or took too long.
    """
    limit_s = min(LIMIT_S, timeout_s or LIMIT_S)
    here, there = Pipe(duplex=False)
    read = [(file.number, file.at) for file in _read_files() if file.at is not None and not file.written]
    process = start_copy(_answer, action, there)
    there.close()
    try:
        if not here.poll(limit_s):
            raise NoAnswer(f"the first items took more than {limit_s:g} s")
        failed, answer = pickle.loads(here.recv_bytes())  # written by a copy of this very process
    except (EOFError, OSError) as error:
        raise NoAnswer(f"its first items could not be computed ahead ({error})") from error
    finally:
        process.kill()
        process.join()
        process.close()
        here.close()
        for number, at in read:  # the copy has read on for both
            with contextlib.suppress(OSError):  # another thread has closed it meanwhile
                os.lseek(number, at, os.SEEK_SET)
    if failed:
        raise NoAnswer(answer)
    return answer


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
