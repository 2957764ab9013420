"""What could be saved with the training (modules, optimizers, schedulers, averages): the same at some steps."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from hotlap.gate.evidence import Pair, Ruling, harmed
from hotlap.record import Run, StateDigest

Key = tuple[int, str]
"""(step, name of the class)."""


def other_content(pairs: Sequence[Pair], baseline: Sequence[Run]) -> Ruling | None:
    """HARMED where anything differs that is the same in all of `baseline`, which have the seed of the pairs."""
    return _other(pairs, baseline, lambda state: state.digest, "content")


def other_counts(pairs: Sequence[Pair], baseline: Sequence[Run]) -> Ruling | None:
    """HARMED where integers, truth values or texts differ, which no rounding changes."""
    return _other(pairs, baseline, lambda state: state.counts, "counters")


def differ(a: Run, b: Run) -> bool:
    """True if anything differs."""
    return any(differing(a, b, lambda state: state.digest))


def _other(
    pairs: Sequence[Pair], baseline: Sequence[Run], value: Callable[[StateDigest], str], what: str
) -> Ruling | None:
    own = {key for a, b in combinations(baseline, 2) for key in differing(a, b, value)}
    for pair in pairs:
        for step, name in differing(pair.base, pair.lever, value):
            if (step, name) not in own:
                return harmed(f"{name} has other {what} than the baseline after step {step}.")
    return None


def differing(a: Run, b: Run, value: Callable[[StateDigest], str]) -> Iterator[Key]:
    """Objects of one class are compared as a set, and only where there are as many: a lever may add some of its own."""
    mine, other = _by_key(a, value), _by_key(b, value)
    return (key for key in mine if len(mine[key]) == len(other.get(key, ())) and mine[key] != other[key])


def _by_key(run: Run, value: Callable[[StateDigest], str]) -> dict[Key, list[str]]:
    found: dict[Key, list[str]] = defaultdict(list)
    for state in run.states or ():
        found[state.step, state.name].append(value(state))
    return {key: sorted(values) for key, values in found.items()}
