"""What is not trained: statistics that forward passes keep, averages of weights."""

import math
from collections.abc import Sequence

from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.gate.residues import Rooms, unsteady, without_room
from hotlap.gate.standing_out import Trait, common_updates, log_ratios, untrained, without
from hotlap.record import Run, Update, as_float

BUFFER_FLOOR = 0.05


def copies(run: Run, parameters: frozenset[int]) -> frozenset[int]:
    """Which tensors that are not trained have names that end as those of these parameters: averages of them."""
    ends = tuple(f".{run.trained[p].partition('.')[2]}" for p in parameters if p < len(run.trained))
    return frozenset(k for k, name in enumerate(run.untrained) if name.endswith(ends))


def moves(evidence: Evidence, pairs: Sequence[Pair], rooms: Rooms, copies: frozenset[int]) -> Trait:
    """How far statistics and averages have moved, but for `copies`. An average of weights grows with them."""
    loose = copies | unsteady(evidence, lambda mine, other: log_ratios(mine.buffers, other.buffers))

    def measure(mine: Update, other: Update) -> list[float]:
        room = max((rooms.get((mine.step, p), 0.0) for p in range(len(mine.norms))), default=0.0)
        return without(loose, [without_room(ratio, room) for ratio in log_ratios(mine.buffers, other.buffers)])

    def say(k: int, size: float) -> str:
        return f"{untrained(pairs, k)} has moved {math.exp(size):.3g} times as far as in the baseline."

    return Trait(measure=measure, floor=BUFFER_FLOOR, say=say)


def others(pairs: Sequence[Pair], moves: Trait) -> Ruling | None:
    """Where all losses are bit-equal, both sides have the same weights at each step: then what is made of them has come
    as far, at each step and in each run."""
    for pair in pairs:
        for mine, other in common_updates(pair) if pair.is_equal() else ():
            for k, ratio in enumerate(moves.measure(mine, other)):
                if abs(ratio) > BUFFER_FLOOR:
                    return harmed(f"{moves.say(k, ratio).removesuffix('.')}, by step {mine.step}.")
    return None


def still(pairs: Sequence[Pair]) -> Ruling | None:
    """A statistic, or an average, that moves in the baseline stays where it was."""
    for pair in pairs:
        for mine, other in list(common_updates(pair))[-1:]:
            for k, (a, b) in enumerate(zip(mine.buffers or (), other.buffers or (), strict=False)):
                if len(mine.buffers or ()) == len(other.buffers or ()) and as_float(b) == 0 and (as_float(a) or 0) > 0:
                    return harmed(
                        f"{untrained(pairs, k)} is at step {mine.step} where it began; in the baseline it moves."
                    )
    return None
