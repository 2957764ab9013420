"""The clock writes down what happens when; it is read later, many steps at once, into the phases of each step.

A step of a small network takes a few hundred microseconds, and code that runs once a step runs with cold caches: adding
up phases on the spot cost several times there what it costs in a loop of its own. So the training thread only appends
three values to a list for each interval, when it is over.
"""

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
_PHASE_OF = (*range(len(PHASES)), INPUT, FORWARD, FORWARD, OPTIMIZER)
_NUM_TIMED = len(_PHASE_OF)

OWN = _NUM_TIMED
"""Hotlap's own work: in no phase, and in no step's time."""
LAP = OWN + 1
"""A step is over, at its end. What is still open goes on in the next step; its part of this one counts as OTHER."""

# Not times: what the step brought.
LOSS, SAMPLES, EPOCH = range(LAP + 1, LAP + 4)


@dataclass(slots=True, kw_only=True)
class Lap(record.Step):
    """One step, as it was read."""

    spent: list[float] = field(default_factory=lambda: [0.0] * len(PHASES))
    """Seconds by phase; they sum to the wall time of the step without hotlap's own work, up to float rounding."""
    aside: Stretch | None = None
    """Of these, in a stretch without training; None if there was none."""
    losses: list[Any] = field(default_factory=list)
    """Scalars that backward was called on (`probe.losses.Loss`)."""
    arm: int = 0
    block: int = 0


class Clock:
    """Intervals nest: time goes to the innermost one. `read` gives the steps so far.

    A hook that runs in every step writes its interval by itself, for speed, and so do those who end a step (LAP) or
    tell what it brought (LOSS, SAMPLES, EPOCH: `note((phases.LOSS, value, None))`):

        before, clock.where = clock.where, phases.TRAIN
        begin = clock.now()
        try: ...
        finally:
            clock.note((phases.TRAIN, begin, clock.now()))
            clock.where = before

    Everybody else uses `enter` and `leave`, or `own`.
    """

    __slots__ = ("_open", "_reader", "callers", "kept", "last_spent", "note", "now", "tape", "where")

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
        self.last_spent: list[float] | None = None
        """Seconds by phase of the step that was read last."""
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
        laps = self._reader.read(self.tape)
        if self.kept is not None:
            self.kept += self.tape
        self.tape.clear()
        if laps:
            self.last_spent = laps[-1].spent
        return laps

    def last_s(self) -> float:
        """Seconds of the interval that was written last (0 before the first): a hook's own, just after it wrote it."""
        return self.tape[-1] - self.tape[-2] if self.tape and self.tape[-3] <= OWN else 0.0

    def phase(self) -> Phase:
        """The phase of this moment; may be asked from any thread."""
        return Phase(PHASES[_PHASE_OF[self.where]])

    @property
    def entered(self) -> frozenset[int]:
        """Phases that were entered at all, up to the last reading."""
        return frozenset(_PHASE_OF[what] for what, number in enumerate(self._reader.num_of) if number)

    @property
    def num_intervals(self) -> int:
        """How many were written, up to the last reading: each costs the same."""
        return sum(self._reader.num_of)


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
                laps += _Reader(since).read(part)
            since, part = moment(end), []
    return laps


class _Reader:
    """Intervals in the order of their ends -> laps. Knows nothing of the present."""

    def __init__(self, begin: float) -> None:
        self.num_of = [0] * _NUM_TIMED
        self._begin = begin
        self._lap = Lap()
        self._outer: list[tuple[float, float, float]] = []
        """(begin, end, seconds) of what lies in no other interval of the lap yet."""
        self._pieces: list[record.Piece] = []
        self._aside = Aside()

    def read(self, tape: list[Any]) -> list[Lap]:
        laps: list[Lap] = []
        triples = iter(tape)
        for what, begin, end in zip(triples, triples, triples, strict=True):
            if what <= OWN:
                self._interval(what, begin, end)
            elif what == LAP:
                laps.append(self._close(end))
            else:
                self._told(what, begin)
        return laps

    def _interval(self, what: int, begin: float, end: float) -> None:
        # It may have begun in an earlier lap.
        begin = max(begin, self._begin)
        seconds = end - begin
        outer = self._outer
        # What lies within it was written before it, and its time is not counted twice.
        while outer and outer[-1][0] >= begin:
            seconds -= outer.pop()[2]
        outer.append((begin, end, end - begin))
        if what == OWN:
            self._pieces.append((record.OWN, begin, end, seconds))
            return
        phase = _PHASE_OF[what]
        self.num_of[what] += 1
        self._lap.spent[phase] += seconds
        self._pieces.append((phase, begin, end, seconds))
        self._lap.num_forwards += phase == FORWARD
        if what >= DRAW:
            self._note_kind(what, begin, end)

    def _note_kind(self, what: int, begin: float, end: float) -> None:
        if what == DRAW:
            self._aside.draws(begin)
        elif what == LOOK:
            self._aside.looks(begin, end)
        elif what == TRAIN:
            self._aside.trains(begin)
        elif what == STEP:
            self._lap.num_updates += 1

    def _told(self, what: int, value: Any) -> None:
        lap = self._lap
        if what == LOSS:
            lap.losses.append(value)
        elif what == SAMPLES:
            lap.num_samples = (lap.num_samples or 0) + value
            self._aside.drew(value)
        else:
            lap.epoch_started = True

    def _close(self, end: float) -> Lap:
        lap = self._lap
        covered = sum([whole for _, _, whole in self._outer])  # a list: quicker than asking a generator
        # Rounding must not make the rest negative.
        lap.spent[OTHER] += max(0.0, end - self._begin - covered)
        found = self._aside.take()
        if found is not None:
            lap.aside = Stretch(self._within(found.begin, found.end), found.num_looks, found.num_samples)
        lap.begin, lap.end, lap.pieces = self._begin, end, self._pieces
        self._begin, self._lap, self._outer, self._pieces = end, Lap(), [], []
        return lap

    def _within(self, begin: float, end: float) -> list[float]:
        """Seconds by phase of a stretch of the lap."""
        spent = [0.0] * len(PHASES)
        rest = end - begin
        for what, piece_begin, piece_end, seconds in self._pieces:
            if piece_begin >= begin and piece_end <= end:
                rest -= seconds
                if what != record.OWN:
                    spent[what] += seconds
        spent[OTHER] += max(0.0, rest)
        return spent
