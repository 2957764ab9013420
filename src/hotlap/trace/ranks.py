"""Traces of several ranks of one job, joined: who computed how long, and who waited for whom.

Of a collective all ranks leave together, so what one spends in it beyond the shortest is waiting for the last to come.
That needs no common clock.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from hotlap.record import RankFacts, Run
from hotlap.trace import spans
from hotlap.trace.reading import Reading
from hotlap.trace.table import Floats, Kind


def joined(readings: Sequence[Reading]) -> Run:
    """The run of the rank that the others wait for most, with the facts of all; of one reading its own."""
    if len(readings) == 1:
        return readings[0].run
    step_s = median(float(np.mean(one.run.step_s)) for one in readings)
    facts = [_facts(one, number, step_s, _waits(readings, number)) for number, one in enumerate(readings)]
    slowest = max(range(len(readings)), key=lambda number: facts[number].compute_s)
    run = readings[slowest].run
    size = max(len(readings), run.world_size)
    note = f"{len(readings)} ranks were read; steps and phases are those of rank {run.rank}, which the others wait for."
    return replace(run, ranks=tuple(facts), world_size=size, notes=(note, *run.notes))


def _facts(one: Reading, number: int, step_s: float, wait_s: float | None) -> RankFacts:
    """Means a step. Ranks step together: what a rank does not spend in collectives, of the step that all share, it
    computes; where the recording of each began says nothing."""
    count = len(one.run.step_s)
    window = np.array([[one.edges[0], one.edges[-1]]])
    communication_s = spans.length(spans.common(one.timeline.communication, window)) / count
    waited_s = None if wait_s is None else wait_s / count
    return RankFacts(
        rank=one.trace.rank if one.trace.rank is not None else number,
        host=one.run.device,
        step_s=float(np.mean(one.run.step_s)),
        compute_s=max(0.0, step_s - communication_s),
        wait_s=waited_s,
        transfer_s=None if waited_s is None else max(0.0, communication_s - waited_s),
        phase_s={phase: one.run.mean_phase_s(phase) for phase in one.run.phase_s},
    )


def _waits(readings: Sequence[Reading], number: int) -> float | None:
    """Seconds that this rank waited in all collectives; None where the ranks did not make the same ones."""
    made = [_collectives(one) for one in readings]
    names, lengths = zip(*made, strict=True)
    if not names[0] or any(other != names[0] for other in names):
        return None
    return float(np.sum(lengths[number] - np.min(lengths, axis=0)))


def _collectives(one: Reading) -> tuple[tuple[str, ...], Floats]:
    trace = one.trace
    rows = np.flatnonzero(one.rows & trace.which(Kind.COMMUNICATION))
    return tuple(trace.text(int(row)).partition("(")[0] for row in rows), trace.end[rows] - trace.start[rows]
