"""The last spans of a process that trains, in a mapped file: it writes them, and they are there however it ends.

A span is four doubles: (phase as a number, begin, end, seconds of it that lie in no span within it). Behind those of a
step, which come in the order of their ends, stand two of the step's own.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from math import isnan, nan
from pathlib import Path
from typing import Any

from hotlap.record.moments import Phase, median
from hotlap.record.progress import mapped
from hotlap.record.run import Excerpt, Run, Span

PHASES = tuple(Phase)
OWN = len(PHASES)
"""In the place of a phase: hotlap's own work, which is in no step's time."""
_OTHER = PHASES.index(Phase.OTHER)
_BROUGHT, _STEP = OWN + 1, OWN + 2
_RECORDED, _EPOCH = 1, 2
"""Added to _STEP."""

Piece = tuple[int, float, float, float]

# Spans that a file holds: 1 MB, some thousand steps of few spans.
_CAPACITY = 2**15
_FIELDS = 4
_BYTES = 8 * _FIELDS

# Of a step with more spans only the sums are written.
_MOST_SPANS = 1000
# Of an excerpt: a rhythm shows in these.
_MOST_STEPS = 24


@dataclass(slots=True, kw_only=True)
class Step:
    """One step as the file holds it. Seconds by the clock of the process."""

    number: int = 0
    """In the training, from 0."""
    begin: float = nan
    end: float = nan
    recorded: bool = False
    epoch_started: bool = False
    pieces: Sequence[Piece] = ()
    """In the order of their ends; begin and end are NaN where only their sums are known."""
    num_samples: int | None = None
    num_updates: int = 0
    num_forwards: int = 0

    def sums(self) -> list[float]:
        """Seconds by phase, and at OWN hotlap's own."""
        return sums_of(self.pieces, self.end - self.begin)

    def length_s(self) -> float:
        """Its time without hotlap's own."""
        return sum(self.sums()[:OWN])


def sums_of(pieces: Iterable[Piece], length_s: float) -> list[float]:
    """Seconds by phase, and at OWN hotlap's own; what of so many seconds lies in none of the pieces is OTHER."""
    found = [0.0] * (OWN + 1)
    for what, _, _, seconds in pieces:
        found[what] += seconds
    # Rounding must not make the rest negative.
    found[_OTHER] += max(0.0, length_s - sum(found))
    return found


class SpanRing:
    """The file, in which the newest spans overwrite the oldest. The process that trains adds steps, its parent reads.

    Raises:
        OSError: there is no room for it.
    """

    def __init__(self, path: Path) -> None:
        self._map = mapped(path, _BYTES * (1 + _CAPACITY))
        self._count = memoryview(self._map)[:8].cast("Q")
        """Spans written since the beginning."""

    def add(self, step: Step) -> None:
        """A step is over."""
        pieces = step.pieces
        if len(pieces) > _MOST_SPANS:
            pieces = [(what, nan, nan, seconds) for what, seconds in enumerate(step.sums())]
        what = _STEP + _RECORDED * step.recorded + _EPOCH * step.epoch_started
        samples = nan if step.num_samples is None else step.num_samples
        own = (_BROUGHT, samples, step.num_updates, step.num_forwards, what, step.begin, step.end, step.number)
        data = array("d", [*chain.from_iterable(pieces), *own]).tobytes()  # of an iterator it would take twice as long
        place = self._count[0] % _CAPACITY
        begin, room = _BYTES * (1 + place), _BYTES * (_CAPACITY - place)
        self._map[begin : begin + len(data[:room])] = data[:room]
        self._map[_BYTES : _BYTES + len(data[room:])] = data[room:]
        # Last: what is not counted was not written.
        self._count[0] += len(data) // _BYTES

    def steps(self) -> list[Step]:
        """Those that are in it whole, the oldest first."""
        count = self._count[0]
        values = array("d", self._map[_BYTES : _BYTES * (1 + min(count, _CAPACITY))]).tolist()
        place = _FIELDS * (count % _CAPACITY)
        values = values[place:] + values[:place]
        found: list[Step] = []
        pieces: list[Any] = []
        brought: tuple[float, ...] = (nan, 0.0, 0.0)
        for what, *told in zip(*[iter(values)] * _FIELDS, strict=True):
            if what < _BROUGHT:
                pieces.append((int(what), *told))
            elif what == _BROUGHT:
                brought = tuple(told)
            else:
                flags, (samples, updates, forwards) = int(what) - _STEP, brought
                found.append(
                    Step(
                        number=int(told[2]),
                        begin=told[0],
                        end=told[1],
                        recorded=bool(flags & _RECORDED),
                        epoch_started=bool(flags & _EPOCH),
                        pieces=pieces,
                        num_samples=None if isnan(samples) else int(samples),
                        num_updates=int(updates),
                        num_forwards=int(forwards),
                    )
                )
                pieces = []
        return found if count <= _CAPACITY else found[1:]


def excerpt(steps: Sequence[Step], *, last: bool = False) -> Excerpt | None:
    """Successive recorded steps as they went, the `last` or those whose length is most usual; None without one.

    Hotlap's own work is cut out of their time, as it is out of the time of each step.
    """
    usable = [one for one in steps if one.recorded and not any(isnan(piece[1]) for piece in one.pieces)]
    if not usable:
        return None
    count = min(_MOST_STEPS, max(1, _MOST_SPANS // max(1, *(len(one.pieces) for one in usable))))
    stretches = list(_stretches(usable, count))
    usual = median(one.length_s() for one in usable)

    def odd(stretch: Sequence[Step]) -> tuple[int, float]:
        return -len(stretch), abs(sum(one.length_s() for one in stretch) - len(stretch) * usual)

    chosen = stretches[-1] if last else min(stretches, key=odd)
    begins = list(accumulate((one.length_s() for one in chosen), initial=0.0))
    spans = (_spans(one, begin) for one, begin in zip(chosen, begins, strict=False))
    return Excerpt(first=chosen[0].number, ends_s=tuple(begins[1:]), spans=tuple(chain.from_iterable(spans)))


def _stretches(steps: Sequence[Step], count: int) -> Iterator[Sequence[Step]]:
    """All of `count` successive steps, or as many as there are on end."""
    breaks = [i for i, (one, after) in enumerate(pairwise(steps), 1) if after.number != one.number + 1]
    for begin, end in pairwise([0, *breaks, len(steps)]):
        for first in range(begin, max(begin, end - count) + 1):
            yield steps[first : min(first + count, end)]


def _spans(step: Step, begin_s: float) -> Iterator[Span]:
    """Those of the training thread, the outer before those within it; what is in none is the script's own Python."""
    own = [(begin, end) for what, begin, end, _ in step.pieces if what == OWN]

    def moved(moment: float) -> float:
        return begin_s + moment - step.begin - sum(min(end, moment) - begin for begin, end in own if begin < moment)

    told = ((moved(begin), moved(end), PHASES[what]) for what, begin, end, _ in step.pieces if what != OWN)
    at = begin_s
    for begin, end, phase in sorted(told, key=lambda one: (one[0], -one[1])):
        if begin > at:
            yield Span(lane="host", phase=Phase.OTHER, begin_s=at, end_s=begin)
        yield Span(lane="loader" if phase is Phase.INPUT else "host", phase=phase, begin_s=begin, end_s=end)
        at = max(at, end)
    if moved(step.end) > at:
        yield Span(lane="host", phase=Phase.OTHER, begin_s=at, end_s=moved(step.end))


def columns(steps: Sequence[Step], spent: Sequence[Sequence[float]], measured: Collection[int]) -> dict[str, Any]:
    """Fields of a Run that steps tell. `spent`: seconds of each by phase; one that was not `measured` is None, never 0.
    What lies in no phase always is."""
    return {
        "step_s": tuple(map(sum, spent)),
        "phase_s": {
            phase: tuple(one[i] for one in spent) if i in measured or i == _OTHER else None
            for i, phase in enumerate(PHASES)
        },
        "step_index": tuple(one.number for one in steps),
        "epoch_starts": tuple(i for i, one in enumerate(steps) if one.epoch_started),
        "num_samples": tuple(one.num_samples for one in steps),
        "num_updates": tuple(one.num_updates for one in steps),
        "num_forwards": tuple(one.num_forwards for one in steps),
    }


def with_steps(run: Run, steps: Sequence[Step]) -> Run:
    """A record that a process wrote on its way, with the steps that it has made since; a thinned one gets only how the
    last ones went."""
    shown = excerpt(steps, last=True)
    made = [one for one in steps if one.recorded]
    if not made or (run.long is not None and run.step_s):
        return replace(run, excerpt=shown)
    seen = {what for one in made for what, *_ in one.pieces}
    losses = dict(zip(run.step_index, run.loss, strict=True))
    return replace(
        run,
        excerpt=shown,
        long=None,
        first_steps_s=tuple(one.length_s() for one in steps if one.number < made[0].number) or run.first_steps_s,
        arm=(0,) * len(made),
        block=(0,) * len(made),
        loss=tuple(losses.get(one.number) for one in made),
        **columns(made, [one.sums()[:OWN] for one in made], seen),
    )
