"""What rounding alone changes, from runs of the baseline: gradients that are nothing else, room for updates to grow."""

import math
from collections.abc import Iterable, Mapping
from statistics import fmean

from hotlap.gate.evidence import Evidence, Pair
from hotlap.gate.rounding import AT_ONCE
from hotlap.gate.standing_out import Measure, Of, common_updates, numbers_of
from hotlap.record import Run
from hotlap.student import mean_interval

# bfloat16 rounds each factor by up to 0.4%; a twentieth in the size of a gradient is no rounding.
GRADIENT_FLOOR = 0.05
# One element in a hundred: float16 under a scaler that works loses fewer of a gradient.
FILLED_FLOOR = 0.01


def unsteady(evidence: Evidence, measure: Measure, floor: float = GRADIENT_FLOOR) -> frozenset[int]:
    """What a nudge changes at once by more than `floor`: it is 0 but for rounding, so it means nothing.

    The gradient of the bias of a convolution in front of a batch normalisation is such: whatever it is, the mean takes
    it out again.
    """
    return frozenset(
        k
        for run in evidence.perturbed
        for mine, other in common_updates(Pair(evidence.base[0], run))
        if mine.step <= AT_ONCE
        for k, change in enumerate(measure(mine, other))
        if abs(change) > floor
    )


def without_room(ratio: float, room: float) -> float:
    """What is left of a growth (both logarithms); a shrinking is as it is."""
    return max(0.0, ratio - room) if ratio > 0 else ratio


Rooms = Mapping[tuple[int, int], float]
"""(step, parameter) -> by how much an update may grow (a logarithm)."""


def rooms_of_residues(evidence: Evidence) -> Rooms:
    """By how much updates may grow where a lever rounds more, from runs of the baseline alone.

    Adam makes a whole step of an element that is rounded to 1e-7, and none of 1e-11. A bias of queries, keys and values
    in one has such elements: what is added to all keys alike, the softmax takes out again. At worst each of them takes
    a whole step. How many there are is taken at the upper end of what the runs leave open (97.5%, runs being the unit
    of chance); and as large as a whole step was the largest update that the others ever made together.
    """
    runs = (*evidence.base, *evidence.perturbed)
    shares = _by_parameter(runs, lambda update: update.residues)
    norms = _by_parameter(runs, lambda update: update.norms)
    rooms = {}
    for p, by_run in shares.items():
        of_runs = [fmean(found.values()) for found in by_run]
        _, _, share = mean_interval(of_runs) or (of_runs[0],) * 3
        if not FILLED_FLOOR < share < 1:
            continue
        whole = max((norm for found in norms.get(p, ()) for norm in found.values()), default=0.0)
        for step in {step for found in norms.get(p, ()) for step in found}:
            usual = fmean(found[step] for found in norms[p] if step in found)
            if usual > 0:
                rooms[step, p] = 0.5 * math.log1p(share / (1 - share) * (whole / usual) ** 2)
    return rooms


def _by_parameter(runs: Iterable[Run], of: Of) -> dict[int, list[dict[int, float]]]:
    """Parameter -> for each run that tells it: step -> number."""
    found: dict[int, dict[int, dict[int, float]]] = {}
    for k, run in enumerate(runs):
        for step, p, value in numbers_of(run, of):
            if math.isfinite(value):
                found.setdefault(p, {}).setdefault(k, {})[step] = value
    return {p: list(by_run.values()) for p, by_run in found.items()}
