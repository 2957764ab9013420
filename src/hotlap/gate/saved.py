"""What is saved of a training, and what could be: files; states of modules, optimizers, schedulers and averages."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hotlap.gate.evidence import Pair, without_variable
from hotlap.record import COPY, FILE, Run, StateDigest

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")

# Names of files that hold a training.
_CHECKPOINT = re.compile(r"\.(pth?|ckpt|bin|safetensors|np[yz]|pkl|pickle|joblib|h5|hdf5|onnx|msgpack)$")
# Part of its size: of equal weights an average that is rounded otherwise is the same to many digits.
_APART = 0.01

StateKey = tuple[int, str]
"""(step, name of the class)."""


def other_content(a: Run, b: Run) -> dict[StateKey, str]:
    """Where anything differs."""
    return _told(other_states(a, b, lambda state: state.digest), "content")


def other_counts(a: Run, b: Run, *, until: float = math.inf) -> dict[StateKey, str]:
    """Where integers, truth values or texts differ, which no rounding changes; from step `until` on texts alone."""
    states = other_states(a, b, lambda state: state.counts).items()
    return _told({key: one for key, one in states if key[0] < until or " " in one.counts}, "settings or counters")


def other_numbers(a: Run, b: Run) -> dict[StateKey, str]:
    """Where numbers lie apart by more than rounding takes those of the same weights: a kept state that follows the
    weights (no copy was made), an average with another rate."""
    return {
        key: _of_copy(one) or f"{one.name} is another one than in the baseline after step {one.step}."
        for key, few, many in _both(a, b)
        for one in few
        if _is_apart(one.sketch, [other.sketch for other in many if other.sketch])
    }


def _is_apart(one: Sequence[float], others: Sequence[Sequence[float]]) -> bool:
    """It is not near any of the others."""
    known = bool(one) and bool(others)
    return known and min(math.dist(one, near) for near in others) > _APART * math.hypot(*one)


def _told(states: Mapping[StateKey, StateDigest], what: str) -> dict[StateKey, str]:
    found = {}
    for key, one in states.items():
        in_baseline = f", where it has {one.counts}" if " " in one.counts else ""
        told = f"{one.name} has other {what} than the baseline after step {one.step}{in_baseline}."
        found[key] = _of_copy(one) or told
    return found


def _of_copy(one: StateDigest) -> str:
    """The sentence; "" for what is none."""
    if one.name != COPY:
        return ""
    kept = f"{COPY} that the script keeps, as a best or an averaged state, is another one"
    return f"{kept} than in the baseline after step {one.step}; what is kept without a copy follows the training."


def other_states(a: Run, b: Run, value: Callable[[StateDigest], str]) -> dict[StateKey, StateDigest]:
    """Where one of them has what the other one lacks: the first of that, beside what stands in its place there."""
    found = {}
    for key, few, many in _both(a, b):
        lacking = Counter(map(value, few)) - Counter(map(value, many))
        if lacking:
            beside = zip(few, map(value, many), strict=False)
            found[key] = next(state for state, other in beside if other != value(state) in lacking)
    return found


def _both(a: Run, b: Run) -> Iterator[tuple[StateKey, list[StateDigest], list[StateDigest]]]:
    """(key, states of the run that has fewer, those of the other one). Objects of one class are compared as a set, and
    only where there are as many: a lever may add some of its own. Copies of the parameters always: a list that is left
    over from a step comes and goes. None where one updates by hand: its steps end in front of that."""
    if any(a.num_updates) != any(b.num_updates):
        return
    mine, other = _by_key(a, b), _by_key(b, a)
    for key in (key for key in mine if key in other):
        few, many = sorted((mine[key], other[key]), key=len)
        if len(few) == len(many) or key[1] == COPY:
            yield key, few, many


def _by_key(run: Run, other: Run) -> dict[StateKey, list[StateDigest]]:
    """An entry of a file that `other` does not know by this name is one of those of the file."""
    known = {without_variable(state.name) for state in other.states or ()}
    found: dict[StateKey, list[StateDigest]] = defaultdict(list)
    for state in run.states or ():
        name = without_variable(state.name)
        found[state.step, name if name in known else _without_entry(name)].append(state)
    return found


def _without_entry(name: str) -> str:
    """ "The file last.pt (ema)" -> "The file last.pt"."""
    return name.partition(" (")[0] if name.startswith(FILE) else name


def not_compared(pairs: Sequence[Pair]) -> str:
    """A sentence, with a space in front, about checkpoints that both may have written and that nobody has looked into;
    "" where there are none."""
    names: dict[str, str] = {}
    for pair in pairs:
        mine, other = (_steps_of_files(run) for run in (pair.base, pair.lever))
        written = {Path(name).name for name in pair.base.written or () if _CHECKPOINT.search(name)}
        names |= {
            _without_numbers(name): name
            for name in sorted({*written, *mine, *other})
            if name not in mine or mine[name] != other.get(name)
        }
    if not names:
        return ""
    told = ", ".join(names.values())
    return f" Not compared: {told}; of files, only those that torch.save writes after the same steps are."


def _steps_of_files(run: Run) -> dict[str, set[int]]:
    """Name -> after which steps `torch.save` wrote it."""
    found: dict[str, set[int]] = defaultdict(set)
    for state in run.states or ():
        if state.name.startswith(FILE):
            found[_without_entry(state.name).removeprefix(FILE)].add(state.step)
    return found


def lost_entries(a: Run, b: Run) -> dict[StateKey, str]:
    """Files of which `b` has written fewer entries than `a`."""
    saved = {(state.step, _without_entry(state.name)) for state in b.states or ()}
    mine, other = _by_key(a, b), _by_key(b, a)
    lost = {key: some[len(other.get(key, ())) :] for key, some in mine.items() if key[1].startswith(FILE)}
    return {
        key: f"{some[0].name} is not written after step {key[0]}; in the baseline it is."
        for key, some in lost.items()
        if some and (key[0], _without_entry(key[1])) in saved
    }


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
