"""Traces of several ranks of one job, joined: who computed how long, and who waited for whom.

Of a collective all ranks leave together, so what one spends in it beyond the shortest is waiting for the last to come.
That needs no common clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from hotlap.record import RankFacts, Run
from hotlap.trace import spans
from hotlap.trace.reading import Reading
from hotlap.trace.table import Floats, Kind
from hotlap.units import duration

# A rank that causes less of all waiting is not named.
_LEAST_SHARE = 0.05


def joined(readings: Sequence[Reading]) -> Run:
    """The run of the rank that the others wait for most, with the facts of all; of one reading its own."""
    if len(readings) == 1:
        return readings[0].run
    step_s = median(float(np.mean(one.run.step_s)) for one in readings)
    shared = _shared(readings)
    waits = _waits(shared) if shared else [None] * len(readings)
    facts = [_facts(one, step_s, wait_s) for one, wait_s in zip(readings, waits, strict=True)]
    slowest = max(range(len(readings)), key=lambda number: facts[number].compute_s)
    run = readings[slowest].run
    size = max(len(readings), run.world_size)
    note = (
        f"{len(readings)} ranks were read; steps and phases are those of rank {run.rank}, "
        f"{'which the others wait for' if shared else 'which spends least time in collectives'}. "
        f"Ranks step together: {duration(step_s)} a step, the median of what they recorded."
    )
    notes = (note, *_who_is_late(shared, [one.run.rank for one in readings]))
    return replace(run, ranks=tuple(facts), world_size=size, notes=(*notes, *run.notes))


def _facts(one: Reading, step_s: float, wait_s: float | None) -> RankFacts:
    """Means a step. Ranks step together: what a rank does not spend in collectives, of the step that all share, is its
    own; where the recording of each began says nothing."""
    count = len(one.run.step_s)
    window = np.array([[one.edges[0], one.edges[-1]]])
    communication_s = spans.length(spans.common(one.timeline.communication, window)) / count
    return RankFacts(
        rank=one.run.rank,
        host=one.run.device,
        step_s=step_s,
        compute_s=max(0.0, step_s - communication_s),
        wait_s=wait_s,
        transfer_s=None if wait_s is None else max(0.0, communication_s - wait_s),
        phase_s={phase: one.run.mean_phase_s(phase) for phase in one.run.phase_s},
    )


def _shared(readings: Sequence[Reading]) -> list[Floats]:
    """(R, C) lengths of the collectives of each step that all ranks recorded with the same ones."""
    made = [_collectives(one) for one in readings]
    return [
        np.array([other[step][1] for other in made])
        for step, (names, _) in made[0].items()
        if names and all(step in other and other[step][0] == names for other in made)
    ]


def _waits(shared: Sequence[Floats]) -> list[float | None]:
    """Seconds a step that each rank waits in collectives."""
    return list(np.mean([(lengths - lengths.min(axis=0)).sum(axis=1) for lengths in shared], axis=0).tolist())


def _who_is_late(shared: Sequence[Floats], numbers: Sequence[int]) -> Iterator[str]:
    """Of each collective the rank that comes last, by what the others wait for it."""
    lost, count = np.zeros(len(numbers)), np.zeros(len(numbers), int)
    for lengths in shared:
        last = lengths.argmin(axis=0)
        others_wait = (lengths - lengths.min(axis=0)).sum(axis=0) / (len(numbers) - 1)
        np.add.at(lost, last, others_wait / len(shared))
        np.add.at(count, last, 1)
    told = [
        f"rank {numbers[at]} to {count[at]} (the others wait {duration(float(lost[at]))} a step for it)"
        for at in np.argsort(-lost).tolist()
        if lost[at] >= _LEAST_SHARE * lost.sum() > 0
    ]
    if told:
        yield f"Of {count.sum()} collectives last to come: {', '.join(told)}."


def _collectives(one: Reading) -> dict[int, tuple[tuple[str, ...], Floats]]:
    """Number of a step -> names and lengths of what was launched in it; what lies around all steps counts with the
    first or the last."""
    trace, count = one.trace, len(one.steps.edges) - 1
    rows = np.flatnonzero(one.rows & trace.which(Kind.COMMUNICATION))
    steps = np.clip(np.searchsorted(one.steps.edges, trace.called()[rows], side="right") - 1, 0, count - 1)
    found = {}
    for step in np.unique(steps).tolist():
        chosen = rows[steps == step]
        names = tuple(trace.text(int(row)).partition("(")[0] for row in chosen)
        found[one.steps.first + step] = (names, trace.end[chosen] - trace.start[chosen])
    return found
