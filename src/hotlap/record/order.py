"""A number of arms and a seed -> the order in which they take turns, round by round.

Who runs right after itself finds its data in the caches, and who runs after a neighbour finds the neighbour's: in
mirrored rounds (A B C, C B A) of four equal processes the second of two turns in a row was 4% and 8% faster, and only
the arms at the ends ever had one. So the order is balanced, and what balance leaves open is drawn by lot:

- two arms: mirrored pairs of rounds (A B, B A or B A, A B), so that a steady drift falls on both alike;
- more: Williams designs (E. J. Williams, Australian Journal of Scientific Research A 2, 149, 1949): within so many
  rounds as there are arms each arm stands at each place once; and within as many rounds, or twice as many where the
  number of arms is odd, it follows each other arm equally often.
"""

import math
import random
from collections.abc import Iterator


def rounds(num_arms: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Endlessly: each round names every arm once. From three arms on none takes two turns in a row."""
    lots = random.Random(seed)
    last = -1
    while True:
        names = lots.sample(range(num_arms), num_arms)
        for square in _squares(num_arms):
            named = [tuple(names[place] for place in row) for row in square]
            for round_ in _shuffled(named, last, lots):
                yield round_
                last = round_[-1]


def whole_rounds(num_rounds: int, num_arms: int) -> int:
    """`num_rounds` or a few more, after which each arm has stood at each place equally often."""
    return math.ceil(num_rounds / num_arms) * num_arms


def _squares(num_arms: int) -> list[list[tuple[int, ...]]]:
    """Latin squares, row by row, that make one balanced design together."""
    # 0, 1, n-1, 2, n-2, ...: neighbours differ by each number once, so shifting all by k gives each pair once.
    first = [0, *(k // 2 + 1 if k % 2 == 0 else num_arms - 1 - k // 2 for k in range(num_arms - 1))]
    square = [tuple((arm + shift) % num_arms for arm in first) for shift in range(num_arms)]
    return [square] if num_arms % 2 == 0 else [square, [row[::-1] for row in square]]


def _shuffled(rows: list[tuple[int, ...]], last: int, lots: random.Random) -> list[tuple[int, ...]]:
    """In a drawn order in which, from three arms on, nobody comes twice in a row; `last` had the turn before."""
    while True:
        drawn = lots.sample(rows, len(rows))
        before = [last, *(row[-1] for row in drawn)]
        if len(rows) < 3 or all(row[0] != arm for row, arm in zip(drawn, before, strict=False)):
            return drawn
