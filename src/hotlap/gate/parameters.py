"""Updates of the parameters: of the same size, and reaching the same elements, as written and with the lever."""

import math
from collections.abc import Sequence

from hotlap.gate import making
from hotlap.gate.evidence import Evidence, Pair, Ruling, harmed
from hotlap.gate.standing_out import common_updates, harm_in_all_or_first, log_ratios
from hotlap.record import Update, as_float

# Nobody tunes a learning rate to 2%; what a lever does below that no one would call another training.
NORM_FLOOR = 0.02
# One unit in a layer of a hundred: with fewer elements untouched, a unit that went dead by chance looks the same.
CHANGED_FLOOR = 0.01


def harm(evidence: Evidence, pairs: Sequence[Pair]) -> Ruling | None:
    """HARMED where updates are larger, smaller, or leave elements of a parameter as they are, compared to as written.

    Works on the mean, over the recorded steps, of log(norm / norm as written) and of the share of elements that changed
    as written but not here. Elements that legitimately stay (rows of an embedding not in the batch, units that are off)
    stay on both sides. Of a gradient that is nothing but rounding the size of an update says nothing.
    """
    import numpy as np

    rounding = making.nothing_but_rounding(evidence)
    references = evidence.references(pairs)
    for pair in pairs:
        ruling = _other_parameters(pair, rounding=rounding)
        if ruling:
            return ruling
    rooms = making.rooms_of_residues(evidence)

    def untouched(p: int, size: float) -> str:
        share = np.nanmean([mine.changed[p] for pair in pairs for mine, _ in common_updates(pair)])
        return f"{size:.1%} of the elements of parameter {p} stay as they are; as written {share:.1%} change."

    def other_size(p: int, size: float) -> str:
        num_parameters = max(len(mine.norms) for pair in pairs for mine, _ in common_updates(pair))
        which = "of all parameters together" if p == num_parameters else f"of parameter {p}"
        return f"The updates {which} are {math.exp(size):.3g} times as large as those as written."

    return harm_in_all_or_first(
        pairs, references, _deficits, untouched, floor=CHANGED_FLOOR, one_sided=True
    ) or harm_in_all_or_first(
        pairs,
        references,
        lambda mine, other: _log_ratios(mine, other, skipped=rounding, rooms=rooms),
        other_size,
        floor=NORM_FLOOR,
    )


def _other_parameters(pair: Pair, *, rounding: frozenset[int]) -> Ruling | None:
    """Another number of parameters, norms that are not finite, or a frozen parameter that moves."""
    for mine, other in common_updates(pair):
        if len(mine.norms) != len(other.norms):
            return harmed(
                f"{len(other.norms)} parameters are updated at step {other.step}; as written {len(mine.norms)}."
            )
        for p, (as_written, norm) in enumerate(zip(_floats(mine), _floats(other), strict=True)):
            if math.isfinite(as_written) and not math.isfinite(norm):
                return harmed(f"The update of parameter {p} at step {mine.step} is not finite; as written it is.")
            never = as_written == 0 and not any(u.norms[p] for u in pair.base.updates or ())
            if never and norm > 0 and p not in rounding:
                return harmed(f"Parameter {p} is updated at step {mine.step}; as written it never is.")
    return None


def _deficits(mine: Update, other: Update) -> list[float]:
    return [a - b for a, b in zip(mine.changed, other.changed, strict=True)]


def _log_ratios(mine: Update, other: Update, *, skipped: frozenset[int], rooms: making.Rooms) -> list[float]:
    """Of each parameter, and in the last place of all together (the mean of them, so that each weighs the same)."""
    found = log_ratios(mine.norms, other.norms)
    ratios = [
        math.nan if p in skipped else making.without_room(ratio, rooms.get((mine.step, p), 0.0))
        for p, ratio in enumerate(found)
    ]
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return [*ratios, math.fsum(known) / len(known) if known else math.nan]


def _floats(update: Update) -> list[float]:
    values = (as_float(norm) for norm in update.norms)
    return [float("nan") if value is None else value for value in values]
