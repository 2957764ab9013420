"""Is what an edit has put into a script at work? Objects of ours that the script makes register here; the probe asks.

Without a probe nobody asks, and nothing is kept but weak references.
"""

import weakref
from typing import Protocol


class Worker(Protocol):
    """What a function of ours returns to the script."""

    def _hotlap_idle(self) -> str | None:
        """Why it is not at work; "" if it was not asked for anything yet, None if it is at work."""

    def _hotlap_settled(self) -> bool:
        """From now on its results come at the same pace: a cache is full, or given up."""


_workers: dict[str, "list[weakref.ref[Worker]]"] = {}
"""Function of ours -> what it has returned."""

_notes: dict[str, None] = {}


def register(function: str, worker: Worker) -> None:
    """`function` has returned this to the script."""
    alive = [one for one in _workers.get(function, ()) if one() is not None]
    _workers[function] = [*alive, weakref.ref(worker)]


def note(sentence: str) -> None:
    """For the record: something that the user should know."""
    _notes[sentence] = None


def notes() -> list[str]:
    """All of them, each once."""
    return list(_notes)


def forget() -> None:
    """As in a process that has just begun."""
    _workers.clear()
    _notes.clear()


def why_idle(function: str) -> str | None:
    """Why nothing that this function returned is at work; None if something is, or that cannot be said."""
    if function not in _workers:
        return f"{function}() was given nothing that it serves in the process that trains"
    reasons = [worker._hotlap_idle() for worker in _alive(function)]
    return None if None in reasons else next((reason for reason in reasons if reason), None)


def settled(function: str | None = None) -> bool:
    """True once all that is in use works at its final pace. `function`: of what this one returned alone."""
    functions = _workers if function is None else {function} & _workers.keys()
    return all(worker._hotlap_settled() for one in functions for worker in _alive(one))


def _alive(function: str) -> list[Worker]:
    return [worker for one in _workers[function] if (worker := one()) is not None]
