"""Hotlap's own part of a hook: what fails there is noted and switched off, and the script goes on as without it.

What the script's own functions raise passes unchanged.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

from torch.compiler import is_compiling
from torch.optim import optimizer as optimizer_module

from hotlap.levers.lever import Patch
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
        # Of the innermost call in this thread: [result of `function`, what it raised], once it was called.
        here = threading.local()

        def called(*args: Any, **kwargs: Any) -> Any:
            outcome = here.outcome
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                outcome[:] = None, error
                raise
            outcome[:] = result, None
            return result

        wrapper = make(called)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            nonlocal wrapper
            # First: within a compiled function there must be nothing that Dynamo cannot trace.
            if (unseen.compiles and is_compiling()) or wrapper is function:
                return function(*args, **kwargs)
            outer, outcome = getattr(here, "outcome", None), list[Any]()
            here.outcome = outcome
            try:
                return wrapper(*args, **kwargs)
            except Exception as error:
                if (outcome and outcome[1] is error) or isinstance(error, StopIteration):
                    raise
                wrapper = function
                self.failed(what, error, off)
            finally:
                here.outcome = outer
            # What the script would have met without the wrapper.
            result, raised = outcome or (function(*args, **kwargs), None)
            if raised is not None:
                raise raised
            return result

        return guarded

    def failed(self, what: str, error: BaseException, off: Callable[[], None] | None = None) -> None:
        """Note it, and switch it off."""
        self.notes.append(note(what, error))
        if off is not None:
            try:
                off()
            except Exception as another:
                self.notes.append(note(f"the end of {what}", another))


def call_before(patch: Patch, owner: Any, name: str, note: Function) -> None:
    """`note` is called with the arguments of each call of `owner.name`, before it."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        note(*args, **kwargs)
        return function(*args, **kwargs)

    patch.set(owner, name, wrapper)


def call_behind(patch: Patch, owner: Any, name: str, note: Function) -> None:
    """`note` is called once `owner.name` is over, with the first of its arguments."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        note(*args[:1])
        return result

    patch.set(owner, name, wrapper)


def around_steps(patch: Patch, before: Function, after: Function) -> None:
    """They are called with (optimizer, args, kwargs) of each step of an optimizer."""
    for register, hook in (
        (optimizer_module.register_optimizer_step_pre_hook, before),
        (optimizer_module.register_optimizer_step_post_hook, after),
    ):
        patch.on_undo(register(unseen.never_compiled(hook)).remove)


def surrounded(begins: Callable[[], None], function: Function, ended: Callable[[], None]) -> Function:
    """`function` with `begins` in front of it and `ended` behind it, whatever becomes of it."""

    @functools.wraps(function, updated=())
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        begins()
        try:
            return function(*args, **kwargs)
        finally:
            ended()

    return wrapper


def note(what: str, error: BaseException) -> str:
    """What is said of a part of hotlap that failed."""
    try:
        why = str(error)
    except Exception:  # an error of the script's own class, that cannot be shown
        why = ""
    return f"Hotlap failed at {what}, which was switched off: {type(error).__name__}{': ' if why else ''}{why}"[:300]
