"""What is saved of a training, and what could be: files; states of modules, optimizers, schedulers and averages."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from hotlap.record import COPY, Run, StateDigest

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")

# Part of its size: of equal weights an average that is rounded otherwise is the same to many digits.
_APART = 0.01

StateKey = tuple[int, str]
"""(step, name of the class)."""
Sketch = tuple[float, ...]
_Value = TypeVar("_Value", str, Sketch)


def other_content(a: Run, b: Run) -> dict[StateKey, str]:
    """Where anything differs."""
    return _told(other_states(a, b, lambda state: state.digest), "content")


def other_counts(a: Run, b: Run) -> dict[StateKey, str]:
    """Where integers, truth values or texts differ, which no rounding changes."""
    return _told(other_states(a, b, lambda state: state.counts), "settings or counters")


def other_numbers(a: Run, b: Run) -> dict[StateKey, str]:
    """Where numbers lie apart by more than rounding takes those of the same weights: a kept state that follows the
    weights (no copy was made), an average with another rate."""
    far = (key for key, few, many in _both(a, b, lambda state: state.sketch) if _is_apart(few, many))
    return {(step, name): f"{name} is another one than in the baseline after step {step}." for step, name in far}


def _is_apart(few: list[Sketch], many: list[Sketch]) -> bool:
    """One of a class is not near any of the others."""
    known = list(filter(None, many))
    return any(min(math.dist(one, near) for near in known) > _APART * math.hypot(*one) for one in few if one and known)


def _told(keys: list[StateKey], what: str) -> dict[StateKey, str]:
    return {(step, name): f"{name} has other {what} than the baseline after step {step}." for step, name in keys}


def other_states(a: Run, b: Run, value: Callable[[StateDigest], str]) -> list[StateKey]:
    """Where one of them has what the other one lacks."""
    return [key for key, few, many in _both(a, b, value) if Counter(few) - Counter(many)]


def _both(
    a: Run, b: Run, value: Callable[[StateDigest], _Value]
) -> Iterator[tuple[StateKey, list[_Value], list[_Value]]]:
    """(key, values of the run that has fewer, those of the other one). Objects of one class are compared as a set, and
    only where there are as many: a lever may add some of its own. Copies of the parameters always: a list that is left
    over from a step comes and goes."""
    mine, other = _by_key(a, value), _by_key(b, value)
    for key in (key for key in mine if key in other):
        few, many = sorted((mine[key], other[key]), key=len)
        if len(few) == len(many) or key[1] == COPY:
            yield key, few, many


def _by_key(run: Run, value: Callable[[StateDigest], _Value]) -> dict[StateKey, list[_Value]]:
    found: dict[StateKey, list[_Value]] = defaultdict(list)
    for state in run.states or ():
        found[state.step, state.name].append(value(state))
    return found


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
