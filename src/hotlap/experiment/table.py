"""Steps of processes, or of arms within a process, that took turns -> log-ratios of their step times.

A ratio is the logarithm of (step time of the base / step time of the other): above 0 the other is faster. Each process
(or pair of processes) gives one: how sure that is, is for `hotlap.experiment.statistics` to say.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from hotlap.record import Run

# Two mirrored rounds (A B, B A) cancel a steady drift; twice that, so that one disturbed round is not all there is.
MIN_ROUNDS = 4
# The longest steps of an arm, cut down to the next longest: a pause of the operating system hits a step or two in some
# hundreds. A loader's burst comes far more often (one step in 5 to 50) and is a cost that must be counted.
PAUSES_SHARE = 0.01
# From so many steps on a block loses its first two to the switch. In shorter ones (of long steps, beside which what the
# caches hold is little) that would leave too few.
_LONG_BLOCK = 8


@dataclass(frozen=True, slots=True)
class Block:
    """Successive steps of one arm, between two switches."""

    number: int
    arm: int
    step_s: NDArray[np.float64]
    """(S,): without the first one or two, which pay for the switch, and without steps that started a loader."""


Pair = tuple[Block, Block]
"""Of the base and of what is compared with it, side by side in time."""


def blocks(run: Run) -> Iterator[Block]:
    """Those of a process, in their order.

    The first step of a block holds the switch, and both it and the next one find the caches full of what the neighbour
    worked on. (A small MLP on two busy cores, medians over 180 turns of three processes: the first step of a turn took
    1.85 times as long as the later ones, the next three 1.02, 1.17 and 1.04 times; of arms switched within a process
    1.21, then 1.00, 1.03 and 1.05.)
    """
    starts = set(run.epoch_starts)
    rows = enumerate(zip(run.block, run.arm, run.step_s, strict=True))
    for (number, arm), group in groupby(rows, key=lambda row: row[1][:2]):
        steps = [(index, step_s) for index, (_, _, step_s) in group]
        settled = steps[2 if len(steps) >= _LONG_BLOCK else 1 :]
        counted = [step_s for index, step_s in settled if index not in starts and step_s > 0]
        yield Block(number, arm, np.array(counted))


def rounds(run: Run) -> list[dict[int, Block]]:
    """Arm -> its block, for each round: a new one begins where an arm comes again. Blocks without steps are missing."""
    found: list[dict[int, Block]] = []
    for block in blocks(run):
        if not found or block.arm in found[-1]:
            found.append({})
        found[-1][block.arm] = block
    return [{arm: block for arm, block in round_.items() if block.step_s.size} for round_ in found]


def log_ratios_of_arms(run: Run) -> dict[int, float]:
    """A run whose arms took turns -> arm -> log(step time of arm 0, the base / step time of that arm).

    Blocks are compared with their neighbours: in a round each arm comes once, and all arms weigh the same in it, so a
    clock that ramps or a machine that slows down for a while meets all of them (best with mirrored rounds, A B B A).
    Means, not medians, so a loader's bursts count. An arm with fewer than `MIN_ROUNDS` is missing.

    Falls short where a burst recurs with a period that divides the block: it may then always hit a step that is left
    out. An odd block length that is no multiple of the number of workers (11, say) avoids that.
    """
    table = rounds(run)
    arms = sorted({arm for round_ in table for arm in round_} - {0})
    ratios = {arm: _log_ratio([(row[0], row[arm]) for row in table if 0 in row and arm in row]) for arm in arms}
    return {arm: ratio for arm, ratio in ratios.items() if ratio is not None}


def log_ratio_of_runs(base: Run, other: Run) -> float | None:
    """Two processes that took turns -> log(step time of `base` / step time of `other`), or None if turns are too few.

    Turn k of one is compared with turn k of the other, in the way of `log_ratios_of_arms`.
    """
    turns, other_turns = ({block.number: block for block in blocks(run) if block.step_s.size} for run in (base, other))
    return _log_ratio([(turns[k], other_turns[k]) for k in sorted(turns.keys() & other_turns.keys())])


def log_ratio_within(run: Run, *, num_rounds: int) -> float | None:
    """One process without any switch -> what a comparison of `num_rounds` rounds makes of its own blocks (truth: 0).

    Every other block is called B, in mirrored pairs (A B, B A): A/A within a process costs no process of its own. The
    ratio of so few rounds is as much smaller as one of `num_rounds` would vary less.
    """
    halves = replace(run, arms=((), ()), arm=tuple(int(block % 4 in (1, 2)) for block in run.block))
    ratio = log_ratios_of_arms(halves).get(1)
    return None if ratio is None else ratio * math.sqrt(min(1.0, len(rounds(halves)) / num_rounds))


def _log_ratio(pairs: Sequence[Pair]) -> float | None:
    """Neighbouring blocks, round by round -> log-ratio of their mean costs.

    Each round is first divided by its local level (the typical step of both sides in it and the rounds beside it), so
    that a stretch in which the machine was slow weighs no more than another.
    """
    if len(pairs) < MIN_ROUNDS:
        return None
    levels = [_level(pairs[max(0, k - 1) : k + 2]) for k in range(len(pairs))]
    base, other = (
        _mean_cost([pair[side].step_s / level for pair, level in zip(pairs, levels, strict=True)]) for side in (0, 1)
    )
    return math.log(base / other)


def _level(pairs: Sequence[Pair]) -> float:
    """The typical step of both sides, geometrically."""
    base, other = (float(np.median(np.concatenate([pair[side].step_s for pair in pairs]))) for side in (0, 1))
    return math.sqrt(base * other)


def _mean_cost(parts: Sequence[NDArray[np.float64]]) -> float:
    """Mean over blocks of their mean step, rare pauses cut down: `PAUSES_SHARE` of all steps, and one at least."""
    step_s = np.sort(np.concatenate(parts))
    longest_s = step_s[-1 - max(1, int(PAUSES_SHARE * len(step_s)))]
    return float(np.mean([np.minimum(part, longest_s).mean() for part in parts]))


def mean_step_s(run: Run) -> float:
    """Of all its steps, rare pauses cut down: one in some hundreds would be taken for a part of each."""
    return _mean_cost([np.asarray(run.step_s, dtype=np.float64)])
