"""Something done in a copy of this process, of which only the answer comes back: it leaves no trace here."""

import pickle
import warnings
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

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
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    with warnings.catch_warnings():
        # "This process is multi-threaded, use of fork() may lead to deadlocks": true of every DataLoader's workers.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = context.Process(target=_answer, args=(action, there), daemon=True)
        process.start()
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
    if failed:
        raise NoAnswer(answer)
    return answer


def _answer(action: Callable[[], Any], there: Any) -> None:
    """IN THE COPY."""
    try:
        data = pickle.dumps((False, action()))
    except Exception as error:  # the script's code, or an answer that cannot be sent; its own workers will tell
        data = pickle.dumps((True, f"{type(error).__name__}: {error}"))
    there.send_bytes(data)
