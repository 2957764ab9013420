"""Numbers that the script prints (a validation, say), or lowers its learning rate by, against those of the baseline: a
line at a time, word for word.

Lines are matched by the step at which they come and by their words. What finds no match is not compared, and neither
are times, speeds and amounts of memory, which levers are there to change.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from itertools import combinations
from statistics import fmean

import numpy as np

from hotlap.gate.evidence import STILL_SAME, Evidence, Pair, Ruling, harmed, loss_matrix, spent
from hotlap.record import GIVEN, Run, Status
from hotlap.student import quantile

Slot = tuple[str, int]
"""(words of the line, which of its numbers)."""
Values = dict[Slot, list[tuple[int, str, str]]]
"""Slot -> (step, as printed in one run, in the other) of each line with these words."""

_END: Slot = ("the last step of the training", 0)

_NUMBER = re.compile(r"(?<![\w.])(?<!\d[:-])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?!\w|[:-]\d)", re.IGNORECASE)
_OF_THE_MACHINE = re.compile(
    r"(?:time|elapsed|eta|took|speed|mem\w*|alloc\w*|reserved|peak|throughput|fps|sec\w*|duration|latency)\W{0,4}$",
    re.IGNORECASE,
)
_UNIT = re.compile(r"\W?\s?(?:[mun]?s|sec\w*|min\w*|h|hours?|\w*/s\w*|[kmgt]i?b|fps)\b", re.IGNORECASE)

# Of a number with fewer digits, two baseline runs may show the same one by chance, though it is a time.
MIN_DIGITS = 3
# A hundredth of what is printed: one item of a hundred that is classified otherwise.
FLOOR = 0.01
# Of a validation by the same weights: another kernel, or an item of a thousand on the other side of a decision.
EQUAL_FLOOR = 1e-3
# As for losses: where rounding has grown, its largest effect in few runs may be a third of that in another one.
MARGIN = 3.0
FALSE_ALARM = 0.01
MIN_SEEDS = 3


def other_text(a: Run, b: Run) -> dict[Slot, str]:
    """Where a number is another one, to the last digit, and holds more than a digit or two."""
    found = {}
    for slot, values in _matched(a, b).items():
        digits = sum(character.isdigit() for _, mine, _ in values for character in mine)
        first = next((value for value in values if value[1] != value[2]), None)
        if first is not None and digits >= MIN_DIGITS:
            step, mine, other = first
            found[slot] = (
                f"After step {step} the script {_tells(slot)} {other} where it {_tells(slot)} {mine} in the "
                f"baseline{_in(slot)}."
            )
    return found


def beyond_rounding(evidence: Evidence, pairs: Sequence[Pair], *, equal: bool) -> Ruling | None:
    """HARMED where numbers lie further from those of the baseline, on average, than rounding takes them.

    `equal`: the losses are bit-equal. Then rounding had no time to grow in the weights either, and no more than
    `EQUAL_FLOOR` is left for numbers that are the same in repeated baseline runs.
    """
    references = [_gaps(_matched(evidence.base[0], run)) for run in evidence.perturbed]
    repeats = list(combinations(evidence.base, 2)) if equal else []
    loose = {slot for a, b in repeats for slot in other_text(a, b)} if repeats else None
    for pair in pairs:
        for slot, (gap, size) in _gaps(_matched(pair.base, pair.lever)).items():
            known = [abs(found[slot][0]) for found in references if slot in found]
            if not known:
                continue
            steady = loose is not None and slot not in loose
            limit = EQUAL_FLOOR * size if steady else max(MARGIN * max(known), FLOOR * size)
            if not abs(gap) <= max(limit, _resolution(pair.base, slot)):
                return harmed(
                    f"What the script {_tells(slot)} is {gap:+.2g} from {size:.3g} in the baseline{_in(slot)}.",
                    by_chance=True,
                )
    return None


def beyond_seeds(pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where numbers differ from those of the baseline, over seeds, by more than chance and a hundredth; where
    all losses are bit-equal, as in `beyond_rounding`, by more than a thousandth. Weights that are the same but for
    rounding, and equal draws, leave nothing to chance: then two seeds by more than a hundredth, in either direction."""
    floor = EQUAL_FLOOR if all(pair.is_equal() for pair in pairs) else FLOOR
    no_chance = all(map(_is_same_training, pairs))
    by_slot: dict[Slot, list[float]] = defaultdict(list)
    floors: dict[Slot, float] = {}
    for pair in pairs:
        for slot, (gap, size) in {**_gaps(_matched(pair.base, pair.lever)), _END: _ends(pair)}.items():
            if size > 0:
                by_slot[slot].append(gap / size)
                floors[slot] = max(floors.get(slot, floor), _resolution(pair.base, slot) / size)
    enough = {slot: np.array(found) for slot, found in by_slot.items() if len(found) >= MIN_SEEDS}
    for slot, gaps in enough.items():
        error = gaps.std(ddof=1) / math.sqrt(len(gaps))
        half = quantile(len(gaps) - 1, 1 - spent(FALSE_ALARM, len(gaps)) / (2 * len(enough))) * error
        if no_chance and (gap := np.sort(np.abs(gaps))[-2]) > max(FLOOR, floors[slot]):
            apart = f"{gap:.1%} or more from the baseline with two seeds of {len(gaps)}"
            return harmed(f"What the script {_tells(slot)} is {apart}, by weights that are the same{_in(slot)}.")
        if not abs(gaps.mean()) - half <= floors[slot]:
            return harmed(
                f"What the script {_tells(slot)} is {gaps.mean():+.1%} +- {half:.1%} from the baseline{_in(slot)}.",
                by_chance=True,
            )
    return None


def _ends(pair: Pair) -> tuple[float, float]:
    """As `_gaps`, of the steps to which the training came; a run that was ended earlier tells nothing."""
    first = min(pair.base, pair.lever, key=lambda run: run.step_index[-1])
    end, other = pair.base.step_index[-1], pair.lever.step_index[-1]
    return float(other - end if first.status is Status.ENDED else 0), float(end)


def _is_same_training(pair: Pair) -> bool:
    """But for the rounding of its losses, with the same random numbers."""
    _, (base, lever) = loss_matrix([pair.base, pair.lever])
    drawn = pair.of_both(lambda run: run.rng_digest)
    same = bool(drawn) and all(mine == other for _, mine, other in drawn)
    return same and bool((np.abs(lever - base) <= STILL_SAME * np.maximum.accumulate(np.abs(base))).all())


def _matched(a: Run, b: Run) -> Values:
    found: Values = defaultdict(list)
    mine, other = _lines(a), _lines(b)
    for (step, words, count), numbers in mine.items():
        for k, (x, y) in enumerate(zip(numbers, other.get((step, words, count), ()), strict=False)):
            found[words, k].append((step, x, y))
    return found


def _lines(run: Run) -> dict[tuple[int, str, int], list[str]]:
    """(step, words, how many such lines came before at the step) -> the numbers in it."""
    found, seen = {}, Counter[tuple[int, str]]()
    for step, text in run.printed:
        numbers: list[str] = []

        def word(match: re.Match[str], numbers: list[str] = numbers) -> str:
            if _OF_THE_MACHINE.search(match.string[: match.start()]) or _UNIT.match(match.string[match.end() :]):
                return "~"
            numbers.append(match.group())
            return "#"

        words = " ".join(_NUMBER.sub(word, text).split())
        found[step, words, seen[step, words]] = numbers
        seen[step, words] += 1
    return found


def _gaps(matched: Values) -> dict[Slot, tuple[float, float]]:
    """Slot -> (mean gap of the second run, mean size in the first); where only the second is not a number, a NaN."""
    found = {}
    for slot, values in matched.items():
        numbers = [(float(mine), float(other)) for _, mine, other in values]
        known = [(mine, other) for mine, other in numbers if math.isfinite(mine)]
        if known:
            gap = fmean(other - mine for mine, other in known)
            found[slot] = gap, fmean(abs(mine) for mine, _ in known)
    return found


def _resolution(run: Run, slot: Slot) -> float:
    """Two units in the last place that is printed, in the mean, as the gap is one."""
    words, k = slot
    numbers = [Decimal(given[k]).as_tuple() for (_, found, _), given in _lines(run).items() if found == words]
    return 2 * fmean([float(f"1e{one.exponent}") for one in numbers if isinstance(one.exponent, int)] or [1.0])


def _tells(slot: Slot) -> str:
    return "gives" if slot[0].startswith(GIVEN) or slot == _END else "prints"


def _in(slot: Slot) -> str:
    return f' (in "{slot[0][:60]}")'
