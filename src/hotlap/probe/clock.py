"""The clock writes down what happens when; it is read later, many steps at once, into the phases of each step.

A step of a small network takes a few hundred microseconds, and code that runs once a step runs with cold caches: adding
up phases on the spot cost several times there what it costs in a loop of its own. So the training thread only appends
three values to a list for each interval, when it is over.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isnan, nan
from time import perf_counter
from types import CodeType
from typing import Any

from hotlap.probe.validation import Aside, Stretch
from hotlap.record import Phase
from hotlap.record import spans as record

PHASES = record.PHASES
INPUT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, SYNC, OTHER = range(len(PHASES))

# Intervals that belong to a phase and mean more than that.
DRAW = 8
"""INPUT: a batch is drawn, or a loader started."""
LOOK = 9
"""FORWARD: a forward pass that does not train (without gradients, or in evaluation mode)."""
TRAIN = 10
"""FORWARD: one that does."""
STEP = 11
"""OPTIMIZER: an optimizer steps."""
OWN = 12
"""Hotlap's own work: in no phase, and in no step's time."""
_PHASE_OF = (*range(len(PHASES)), INPUT, FORWARD, FORWARD, OPTIMIZER, record.OWN)
LAP = OWN + 1
"""A step is over, at its end. What is still open goes on in the next step; its part of this one counts as OTHER."""

# Not times: what the step brought.
LOSS, SAMPLES, EPOCH, LOADER = range(LAP + 1, LAP + 5)


@dataclass(slots=True, kw_only=True)
class Lap(record.Step):
    """One step, as it was read."""

    spent: list[float] = field(default_factory=lambda: [0.0] * len(PHASES))
    """Seconds by phase; they sum to the wall time of the step without hotlap's own work, up to float rounding."""
    aside: Stretch | None = None
    """Of these, in a stretch without training; None if there was none."""
    aside_at: tuple[float, float] | None = None
    """Begin and end of that stretch, by the clock."""
    losses: list[Any] = field(default_factory=list)
    """Scalars that backward was called on, as `probe.losses` notes them; numbers once they are read."""
    loaders: list[int | None] = field(default_factory=list)
    """Of its batches, in order, but for those that were only looked at, as far as they were noted (None: of an iterator
    that nobody knows)."""
    arm: int = 0
    block: int = 0


class Clock:
    """Intervals nest: time goes to the innermost one. `read` gives the steps so far.

    A hook that runs in every step writes its interval by itself, for speed, and so do those who end a step (LAP) or
    tell what it brought (LOSS, SAMPLES, EPOCH, LOADER: `note((phases.LOSS, value, None))`):

        before, clock.where = clock.where, phases.TRAIN
        begin = clock.now()
        try: ...
        finally:
            clock.note((phases.TRAIN, begin, clock.now()))
            clock.where = before

    Everybody else uses `enter` and `leave`, or `own`.
    """

    __slots__ = ("_open", "_reader", "callers", "kept", "last", "note", "now", "tape", "where")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self.now = now
        self.kept: list[Any] | None = None
        """A list takes everything that is read from now on, to be read again by another clock."""
        self.tape: list[Any] = []
        """What was written and not read yet; always the same list."""
        self.note = self.tape.extend
        """Takes (what, begin, end) of an interval that is over, (LAP, end, end), or (what, value, None)."""
        self.where = OTHER
        """What this moment is spent on: a phase, or DRAW, LOOK, TRAIN, STEP."""
        self.callers: dict[Phase, set[CodeType]] = {
            phase: set() for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD)
        }
        """Of the hooks: what calls whatever makes such a phase."""
        self.last: Lap | None = None
        """The step that was read last."""
        self._open: list[tuple[int, int, float]] = []
        self._reader = _Reader(now())

    def enter(self, what: int) -> None:
        """From now on time goes to a phase (or one of DRAW, LOOK, TRAIN, STEP), until `leave`."""
        self._open.append((what, self.where, self.now()))
        self.where = what

    def leave(self) -> None:
        """Back to what `enter` interrupted."""
        if self._open:
            what, self.where, begin = self._open.pop()
            self.note((what, begin, self.now()))

    def own(self, begin: float) -> None:
        """Hotlap's own work, from `begin` until now, is over."""
        self.note((OWN, begin, self.now()))

    def read(self) -> list[Lap]:
        """The steps that were completed since the last call."""
        laps, length = self._reader.read(self.tape)
        if self.kept is not None:
            self.kept += self.tape[:length]
        del self.tape[:length]
        if laps:
            self.last = laps[-1]
        return laps

    def last_s(self) -> float:
        """Seconds of the interval that was written last (0 before the first): a hook's own, just after it wrote it."""
        return self.tape[-1] - self.tape[-2] if self.tape and self.tape[-3] <= OWN else 0.0

    def phase(self) -> Phase:
        """The phase of this moment; may be asked from any thread."""
        return Phase(PHASES[_PHASE_OF[self.where]])

    @property
    def last_spent(self) -> list[float] | None:
        """Seconds by phase of the step that was read last."""
        return None if self.last is None else self.last.spent

    @property
    def entered(self) -> frozenset[int]:
        """Phases that were entered at all, up to the last reading."""
        return frozenset(_PHASE_OF[what] for what in self._reader.num_of if what < OWN)

    @property
    def num_intervals(self) -> int:
        """How many were written, up to the last reading: each costs the same."""
        return sum(number for what, number in self._reader.num_of.items() if what < OWN)


def read_again(tape: list[Any], moment: Callable[[float], float]) -> list[Lap]:
    """The steps of a tape by another clock, of which `moment` answers what it showed at a time of the first one.

    NaN: that is not known, and no step of which it is so is among them. Nor is the first, which began before the tape.
    """
    laps: list[Lap] = []
    since, part = nan, []
    for what, begin, end in zip(tape[::3], tape[1::3], tape[2::3], strict=True):
        if what <= LAP:
            part += [what, moment(begin), moment(end)]
        if what == LAP:
            if not any(map(isnan, (since, *part))):
                laps += _Reader(since).read(part)[0]
            since, part = moment(end), []
    return laps


class _Reader:
    """Intervals in the order of their ends -> laps. Knows nothing of the present."""

    def __init__(self, begin: float) -> None:
        self.num_of: Counter[int] = Counter()
        """How often each thing was written, in the steps so far."""
        self._begin = begin

    def read(self, tape: list[Any]) -> tuple[list[Lap], int]:
        """The steps that are whole, and the length of their part of the tape."""
        laps, kinds, start = [], tape[::3], 0
        for _ in range(kinds.count(LAP)):
            stop = kinds.index(LAP, start) + 1
            laps.append(self._lap(kinds[start:stop], tape[3 * start : 3 * stop]))
            start = stop
        self.num_of.update(kinds[:start])
        return laps, 3 * start

    def _lap(self, kinds: list[int], tape: list[Any]) -> Lap:
        since, end_s = self._begin, tape[-1]
        pieces: list[record.Piece] = []
        lap = Lap(begin=since, end=end_s, pieces=pieces, epoch_started=EPOCH in kinds)
        outer: list[record.Piece] = []
        triples = iter(tape)
        for what, told, end in zip(triples, triples, triples, strict=True):
            if what <= OWN:
                begin = told if told > since else since  # it may have begun in an earlier lap
                seconds = end - begin
                # What lies within it was written before it, and its time is not counted twice.
                while outer and outer[-1][1] >= begin:
                    _, inner_begin, inner_end, _ = outer.pop()
                    seconds -= inner_end - inner_begin
                piece = (_PHASE_OF[what], begin, end, seconds)
                outer.append(piece)
                pieces.append(piece)
            elif what == LOSS:
                lap.losses.append(told)
            elif what == SAMPLES:
                lap.num_samples = (lap.num_samples or 0) + told
            elif what == LOADER:
                lap.loaders.append(told)
        lap.spent = lap.sums()[: record.OWN]
        lap.num_updates = kinds.count(STEP)
        lap.num_forwards = kinds.count(TRAIN) + kinds.count(FORWARD) + kinds.count(LOOK)
        if LOOK in kinds:
            lap.epoch_started, lap.loaders = _drawn_for_training(kinds, tape[1::3])
            _find_aside(lap, tape)
        self._begin = end_s
        return lap


def _drawn_for_training(kinds: list[int], told: list[Any]) -> tuple[bool, list[int | None]]:
    """(a loader was started for more than batches that are only looked at, loaders of the other batches).

    No backward pass lies between such a batch and the next one. Of what is drawn one behind the other, as by `zip`, one
    backward pass trains on all.
    """
    drawn: list[tuple[set[int], list[int | None]]] = [(set(), [])]
    for what, value in zip(kinds, told, strict=True):
        if what == DRAW and not drawn[-1][0].isdisjoint((LOOK, TRAIN, BACKWARD)):
            drawn.append((set(), []))
        done, loaders = drawn[-1]
        done.add(what)
        if what == LOADER:
            loaders.append(value)
    trained = [(done, loaders) for done, loaders in drawn if BACKWARD in done or LOOK not in done]
    return any(EPOCH in done for done, _ in trained), [one for _, loaders in trained for one in loaders]


def _find_aside(lap: Lap, tape: list[Any]) -> None:
    """Its stretch without training, if there is one."""
    aside = Aside()
    told = {DRAW: aside.draws, LOOK: aside.looks, TRAIN: aside.trains}
    for what, begin, end in zip(tape[::3], tape[1::3], tape[2::3], strict=True):
        if what == SAMPLES:
            aside.drew(begin)
        elif what == EPOCH:
            aside.starts()
        elif what in told:
            told[what](max(begin, lap.begin), end)
    if aside.begin is None or aside.end is None:
        return
    inside = (piece for piece in lap.pieces if piece[1] >= aside.begin and piece[2] <= aside.end)
    spent = record.sums_of(inside, aside.end - aside.begin)[: record.OWN]
    lap.aside = Stretch(spent, aside.num_looks, aside.num_samples)
    lap.aside_at = aside.begin, aside.end
