"""What could be saved with the training (modules, optimizers, schedulers, averages): the same at some steps."""

from collections import defaultdict
from collections.abc import Callable

from hotlap.record import Run, StateDigest

Key = tuple[int, str]
"""(step, name of the class)."""


def other_content(a: Run, b: Run) -> dict[Key, str]:
    """Where anything differs."""
    return _told(differing(a, b, lambda state: state.digest), "content")


def other_counts(a: Run, b: Run) -> dict[Key, str]:
    """Where integers, truth values or texts differ, which no rounding changes."""
    return _told(differing(a, b, lambda state: state.counts), "counters")


def _told(keys: list[Key], what: str) -> dict[Key, str]:
    return {(step, name): f"{name} has other {what} than the baseline after step {step}." for step, name in keys}


def differing(a: Run, b: Run, value: Callable[[StateDigest], str]) -> list[Key]:
    """Objects of one class are compared as a set, and only where there are as many: a lever may add some of its own."""
    mine, other = _by_key(a, value), _by_key(b, value)
    return [key for key in mine if len(mine[key]) == len(other.get(key, ())) and mine[key] != other[key]]


def _by_key(run: Run, value: Callable[[StateDigest], str]) -> dict[Key, list[str]]:
    found: dict[Key, list[str]] = defaultdict(list)
    for state in run.states or ():
        found[state.step, state.name].append(value(state))
    return {key: sorted(values) for key, values in found.items()}
