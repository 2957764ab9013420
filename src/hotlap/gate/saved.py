"""What is saved of a training, and what could be: files; states of modules, optimizers, schedulers and averages."""

import math
import re
from collections import defaultdict
from collections.abc import Callable

from hotlap.record import Run, StateDigest

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")

# Part of its size: of equal weights an average that is rounded otherwise is the same to many digits.
_APART = 0.01

StateKey = tuple[int, str]
"""(step, name of the class)."""
Sketch = tuple[float, ...]


def other_content(a: Run, b: Run) -> dict[StateKey, str]:
    """Where anything differs."""
    return _told(other_states(a, b, lambda state: state.digest), "content")


def other_counts(a: Run, b: Run) -> dict[StateKey, str]:
    """Where integers, truth values or texts differ, which no rounding changes."""
    return _told(other_states(a, b, lambda state: state.counts), "settings or counters")


def other_numbers(a: Run, b: Run) -> dict[StateKey, str]:
    """Where numbers lie apart by more than rounding takes those of the same weights: a kept state that follows the
    weights (no copy was made), an average with another rate."""
    mine, other = _sketches(a), _sketches(b)
    far = (key for key in mine if len(mine[key]) == len(other.get(key, ())) and _is_apart(mine[key], other[key]))
    return {(step, name): f"{name} is another one than in the baseline after step {step}." for step, name in far}


def _is_apart(mine: list[Sketch], other: list[Sketch]) -> bool:
    """One of a class is not near any of the others."""
    return any(min(math.dist(one, near) for near in other) > _APART * math.hypot(*one) for one in mine)


def _sketches(run: Run) -> dict[StateKey, list[Sketch]]:
    found: dict[StateKey, list[Sketch]] = defaultdict(list)
    for state in run.states or ():
        if state.sketch:
            found[state.step, state.name].append(state.sketch)
    return found


def _told(keys: list[StateKey], what: str) -> dict[StateKey, str]:
    return {(step, name): f"{name} has other {what} than the baseline after step {step}." for step, name in keys}


def other_states(a: Run, b: Run, value: Callable[[StateDigest], str]) -> list[StateKey]:
    """Objects of one class are compared as a set, and only where there are as many: a lever may add some of its own."""
    mine, other = _by_key(a, value), _by_key(b, value)
    return [key for key in mine if len(mine[key]) == len(other.get(key, ())) and mine[key] != other[key]]


def _by_key(run: Run, value: Callable[[StateDigest], str]) -> dict[StateKey, list[str]]:
    found: dict[StateKey, list[str]] = defaultdict(list)
    for state in run.states or ():
        found[state.step, state.name].append(value(state))
    return {key: sorted(values) for key, values in found.items()}


def unwritten(a: Run, b: Run) -> dict[str, str]:
    """Files that `a` has written, and `b` has not, although it came as far. Numbers in names do not count: a time, a
    process, a loss that is rounded otherwise. (Names that are others by more than that differ in the baseline too.)"""
    if a.written is None or b.written is None or len(b.step_index) < len(a.step_index):
        return {}
    others = set(map(_without_numbers, b.written))
    lost = {_without_numbers(name): name for name in a.written}
    return {
        words: f"The script does not write {name}; in the baseline it does."
        for words, name in lost.items()
        if words not in others
    }


def _without_numbers(name: str) -> str:
    """ "epoch=3-loss=1.5e-05.ckpt" -> "epoch=#-loss=#.ckpt"."""
    return _NUMBER.sub("#", name)
