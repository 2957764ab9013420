"""Several ways to do the same, timed in turn within each round: a busy moment of the machine hits all of them."""

import time
from collections.abc import Callable, Mapping, Sequence

Work = Callable[[], object]


def turns(
    works: Mapping[str, Work], *, rounds: int, round_s: float, finish: Callable[[], object] = lambda: None
) -> dict[str, tuple[float, ...]]:
    """Name -> seconds of one call, once for each round.

    Arguments:
        works: what is timed; each is called once before, unseen.
        round_s: about so long each is repeated within a round.
        finish: called at the end of each repetition, within the time: it waits for a device.
    """
    counts = {name: _count(work, round_s, finish) for name, work in works.items()}
    found: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds):
        order: Sequence[str] = tuple(works) if number % 2 == 0 else tuple(reversed(tuple(works)))
        for name in order:
            found[name].append(_seconds(works[name], counts[name], finish) / counts[name])
    return {name: tuple(times) for name, times in found.items()}


def _count(work: Work, round_s: float, finish: Work) -> int:
    """So many calls take about `round_s`; caches are warm afterwards."""
    _seconds(work, 1, finish)
    number, spent = 1, _seconds(work, 1, finish)
    while spent < round_s / 4 and number < 1 << 20:
        number *= 2
        spent = _seconds(work, number, finish)
    return max(1, round(number * round_s / max(spent, 1e-9)))


def _seconds(work: Work, number: int, finish: Work) -> float:
    begun = time.perf_counter()
    for _ in range(number):
        work()
    finish()
    return time.perf_counter() - begun
