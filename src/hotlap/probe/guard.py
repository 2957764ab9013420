"""Hotlap's own part of a hook: what fails there is noted and switched off, and the script goes on as without it.

What the script's own functions raise passes unchanged.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

from torch.compiler import is_compiling

from hotlap.probe import unseen

Function = Callable[..., Any]


class Guard:
    """Everything that hotlap does within a call of the script's goes through one, and costs a Python call more."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        """What was switched off, and why: a sentence each, for the record."""

    def __call__(
        self,
        work: Function,
        what: str,
        *,
        instead: Function = lambda *_, **__: None,
        off: Callable[[], None] | None = None,
    ) -> Function:
        """`work`, until it fails; from then on `instead`.

        Args:
            work: does something of hotlap's, and nothing of the script's.
            what: a noun for the note.
            off: called once when it has failed.
        """

        def guarded(*args: Any, **kwargs: Any) -> Any:
            nonlocal work
            try:
                return work(*args, **kwargs)
            except Exception as error:
                if work is not instead:
                    work = instead
                    self.failed(what, error, off)
                return instead(*args, **kwargs)

        return guarded

    def around(
        self,
        function: Function,
        make: Callable[[Function], Function],
        what: str,
        *,
        off: Callable[[], None] | None = None,
    ) -> Function:
        """`make(function)`, a wrapper of ours; where it fails by itself it gives what `function` gives, and is gone.

        `function` is called once at most, whatever becomes of the wrapper. StopIteration is no failure. For what is not
        called in every step: it costs three Python calls more.
        """
        calls = _Calls()

        def called(*args: Any, **kwargs: Any) -> Any:
            return calls.open[-1].run(function, args, kwargs)

        wrapper = make(called)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            nonlocal wrapper
            # First: within a compiled function there must be nothing that Dynamo cannot trace.
            if (unseen.compiles and is_compiling()) or wrapper is function:
                return function(*args, **kwargs)
            call = _Call()
            calls.open.append(call)
            try:
                return wrapper(*args, **kwargs)
            except Exception as error:
                if error is call.raised or isinstance(error, StopIteration):
                    raise
                wrapper = function
                self.failed(what, error, off)
            finally:
                calls.open.pop()
            return call.outcome(function, args, kwargs)

        return guarded

    def failed(self, what: str, error: BaseException, off: Callable[[], None] | None = None) -> None:
        """Note it, and switch it off."""
        self.notes.append(note(what, error))
        if off is not None:
            try:
                off()
            except Exception as another:
                self.notes.append(note(f"the end of {what}", another))


class _Call:
    """One call of a wrapper, and what became of the function within."""

    __slots__ = ("raised", "result")

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self.result: Any = self  # none yet

    def run(self, function: Function, args: Any, kwargs: Any) -> Any:
        try:
            self.result = function(*args, **kwargs)
        except BaseException as error:
            self.raised = error
            raise
        return self.result

    def outcome(self, function: Function, args: Any, kwargs: Any) -> Any:
        """What the script would have met without the wrapper."""
        if self.raised is not None:
            raise self.raised
        return function(*args, **kwargs) if self.result is self else self.result


class _Calls(threading.local):
    """Those of this thread that are not over; the innermost last."""

    def __init__(self) -> None:
        self.open: list[_Call] = []


def note(what: str, error: BaseException) -> str:
    """What is said of a part of hotlap that failed."""
    try:
        why = str(error)
    except Exception:  # an error of the script's own class, that cannot be shown
        why = ""
    return f"Hotlap failed at {what}, which was switched off: {type(error).__name__}{': ' if why else ''}{why}"[:300]
