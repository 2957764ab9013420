"""Which thread trains? The hooks pass over all others."""

import functools
from threading import Thread, active_count, current_thread, get_ident, main_thread
from typing import Any

from torch.compiler import is_compiling

from hotlap.levers.lever import Patch
from hotlap.probe import unseen
from hotlap.probe.clock import Clock
from hotlap.probe.guard import Function, call_before


class TrainingThread:
    """The main thread, unless the first backward pass is called from another; when it has ended, the next to call one.

    Where several train at a time, the steps of one are those of the record.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.id = main_thread().ident
        """As `threading.get_ident` answers in it; None: no thread, until one goes backward."""
        self.sure: int | None = None
        """The same, once it was seen to go backward."""
        self._thread: Thread | None = None
        self._over = False

    def trains(self) -> bool:
        """A backward pass begins in the thread that asks: is it the one that trains?"""
        here = get_ident()
        if here == self.sure:
            return True
        if self._over:
            return False
        if self.sure is not None and self._thread is not None and self._thread.is_alive():
            return False
        self.id = self.sure = here
        self._thread = current_thread()
        self._clock.shared = active_count() > 1
        return True

    def telling(self, function: Function, note: Function, *, in_any: bool = False) -> Function:
        """`function`; each call in this thread, or in any, is followed by one of `note`, with its result and its
        arguments."""

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            # Within a compiled function there must be nothing that Dynamo cannot trace.
            if not (unseen.compiles and is_compiling()) and (in_any or get_ident() == self.id):
                note(result, *args, **kwargs)
            return result

        return wrapper

    def install(self, patch: Patch) -> None:
        """Notice when the script starts another thread."""
        call_before(patch, Thread, "start", lambda *_: setattr(self._clock, "shared", True))

    def retire(self) -> None:
        """From now on none does: all hooks pass over every thread."""
        self.id, self.sure, self._over, self._clock.shared = None, None, True, True

    def forget(self) -> None:
        """In a forked process: most are workers, whose calls of modules (transforms are such) are no training."""
        self.id, self.sure, self._clock.shared = None, None, True
