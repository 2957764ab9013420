"""Traces of several ranks of one job, joined: who computed how long, and who waited for whom.

Of a collective all ranks leave together, so what one spends in it beyond the shortest is waiting for the last to come.
That needs no common clock.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from hotlap.record import RankFacts, Run
from hotlap.trace import spans
from hotlap.trace.reading import Reading
from hotlap.trace.table import Floats, Ints, Kind
from hotlap.units import duration

# A rank that causes less of all waiting is not named.
_LEAST_SHARE = 0.05


def joined(readings: Sequence[Reading]) -> Run:
    """The run of the rank that the others wait for most, with the facts of all; of one reading its own."""
    if len(readings) == 1:
        return readings[0].run
    step_s = median(float(np.mean(one.run.step_s)) for one in readings)
    shared = _shared(readings)
    waits, lost, times = _waits(shared, len(readings))
    facts = [_facts(one, step_s, wait_s) for one, wait_s in zip(readings, waits, strict=True)]
    slowest = max(range(len(readings)), key=lambda number: (lost[number], facts[number].compute_s))
    run = readings[slowest].run
    size = max(len(readings), run.world_size)
    note = (
        f"{len(readings)} ranks were read; steps and phases are those of rank {run.rank}, "
        f"{'which the others wait for' if shared else 'which spends least time in collectives'}. "
        f"Ranks step together: {duration(step_s)} a step, the median of what they recorded."
    )
    notes = (note, *_who_is_late(lost, times, [one.run.rank for one in readings]))
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


@dataclass(frozen=True, slots=True)
class _Shared:
    """Collectives of one step that some ranks recorded alike."""

    step: int
    members: list[int]
    """(M,) places among the readings."""
    lengths: Floats
    """(M, C)."""

    @property
    def waits(self) -> Floats:
        """(M, C) seconds beyond the shortest."""
        waits: Floats = self.lengths - self.lengths.min(axis=0)
        return waits


def _shared(readings: Sequence[Reading]) -> list[_Shared]:
    """Of each step and each group of processes, where all that belong to the group recorded the same."""
    made = [_collectives(one) for one in readings]
    found = []
    for key in dict.fromkeys(key for one in made for key in one):
        step, group = key
        members = [number for number, one in enumerate(made) if key in one]
        alike = len({made[number][key][0] for number in members}) == 1
        # Without a group all ranks are one.
        if alike and len(members) > 1 and (group or len(members) == len(readings)):
            found.append(_Shared(step, members, np.array([made[number][key][1] for number in members])))
    return found


def _waits(shared: Sequence[_Shared], count: int) -> tuple[list[float | None], Floats, Ints]:
    """Of each of so many ranks: seconds a step that it waits in collectives, None where it shares none; seconds a step
    that the others wait in those to which it comes last, and how many these are."""
    found: list[float | None] = [None] * count
    lost, times, steps = np.zeros(count), np.zeros(count, np.int64), len({one.step for one in shared})
    for one in shared:
        for number, wait_s in zip(one.members, one.waits.sum(axis=1).tolist(), strict=True):
            found[number] = (found[number] or 0.0) + wait_s / steps
        last = np.array(one.members)[one.lengths.argmin(axis=0)]
        np.add.at(lost, last, one.waits.sum(axis=0) / (len(one.members) - 1) / steps)
        np.add.at(times, last, 1)
    return found, lost, times


def _who_is_late(lost: Floats, times: Ints, numbers: Sequence[int]) -> Iterator[str]:
    told = [
        f"rank {numbers[at]} to {times[at]} (the others wait {duration(float(lost[at]))} a step for it)"
        for at in np.argsort(-lost).tolist()
        if lost[at] >= _LEAST_SHARE * lost.sum() > 0
    ]
    if told:
        yield f"Of {times.sum()} collectives last to come: {', '.join(told)}."


def _collectives(one: Reading) -> dict[tuple[int, str], tuple[tuple[str, ...], Floats]]:
    """Number of a step, and the group of processes -> names and lengths of what was launched in it; what lies around
    all steps counts with the first or the last."""
    trace, count = one.trace, len(one.steps.edges) - 1
    rows = np.flatnonzero(one.rows & trace.which(Kind.COMMUNICATION))
    steps = np.clip(np.searchsorted(one.steps.edges, trace.called()[rows], side="right") - 1, 0, count - 1)
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    columns = (rows, one.steps.first + steps, one.who.launched_in(rows))
    for row, step, operator in zip(*(each.tolist() for each in columns), strict=True):
        found[step, trace.exchanged(row, operator).ranks].append(row)
    return {
        key: (tuple(trace.text(row).partition("(")[0] for row in chosen), trace.end[chosen] - trace.start[chosen])
        for key, chosen in found.items()
    }
