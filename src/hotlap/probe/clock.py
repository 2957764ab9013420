"""The clock writes down what happens when; it is read later, many steps at once, into the phases of each step.

A step of a small network takes a few hundred microseconds, and code that runs once a step runs with cold caches: adding
up phases on the spot cost several times there what it costs in a loop of its own. So the training thread only appends
three values to a list for each interval, when it is over.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan, nan
from time import perf_counter
from types import CodeType
from typing import Any, NamedTuple

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
STEP_END = OWN + 1
"""A step is over, at its end. What is still open goes on in the next step; its part of this one counts as OTHER."""

# Not times: what the step brought (of an epoch's begin the seconds that its loader took to start).
LOSS, SAMPLES, EPOCH, LOADER = range(STEP_END + 1, STEP_END + 5)

BETWEEN = (OTHER, STEP)
"""Where a forward pass, or a solve, that begins is an outermost one. Elsewhere a module that is called is a part of
what goes on: of a model, of a recomputation (checkpointing) within a backward pass, which is made in another thread
beside a device, or, as torchvision's are, a transform of the data set."""


class Stretch(NamedTuple):
    """What lies between the first and the last forward pass without training in one step."""

    spent: list[float]
    """Seconds by phase."""
    num_looks: int
    """Forward passes without training."""
    num_samples: int
    """Samples that were drawn and only looked at."""
    at: tuple[float, float] = (nan, nan)
    """Begin and end, by the clock."""


@dataclass(slots=True, kw_only=True)
class StepSpans(record.Step):
    """One step, as it was read."""

    spent: list[float] = field(default_factory=lambda: [0.0] * len(PHASES))
    """Seconds by phase; they sum to the wall time of the step without hotlap's own work, up to float rounding."""
    aside: Stretch | None = None
    """Of these, in a stretch without training; None if there was none."""
    losses: list[Any] = field(default_factory=list)
    """Scalars that backward was called on, as `probe.losses` notes them; numbers once they are read."""
    start_s: float = 0.0
    """For starting loaders."""
    loaders: Sequence[int | None] = ()
    """Of its batches, in order, but for those that were only looked at, as far as they were noted (None: of an iterator
    that nobody knows)."""
    arm: int = 0
    block: int = 0


class Clock:
    """Intervals nest: time goes to the innermost one. `read` gives the steps so far.

    A hook that runs in every step writes its interval by itself, for speed, and so do those who end a step (STEP_END),
    or tell what it brought (LOSS, SAMPLES, EPOCH, LOADER: `note((phases.LOSS, value, None))`):

        before, clock.where = clock.where, phases.TRAIN
        begin = clock.now()
        try: ...
        finally:
            clock.note((phases.TRAIN, begin, clock.now()))
            clock.where = before

    Everybody else uses `enter` and `leave`, or `own`.
    """

    __slots__ = ("_open", "_reader", "callers", "events", "kept", "last", "note", "now", "shared", "where")

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self.now = now
        self.kept: list[Any] | None = None
        """A list takes everything that is read from now on, to be read again by another clock."""
        self.events: list[Any] = []
        """What was written and not read yet; always the same list."""
        self.note = self.events.extend
        """Takes (what, begin, end) of an interval that is over, (STEP_END, end, end), or (what, value, None)."""
        self.where = OTHER
        """What this moment is spent on: a phase, or DRAW, LOOK, TRAIN, STEP."""
        self.shared = True
        """Other threads than the one that trains may call hooks, which ask then who does: half a microsecond each."""
        self.callers: dict[Phase, set[CodeType]] = {
            phase: set() for phase in (Phase.INPUT, Phase.FORWARD, Phase.BACKWARD)
        }
        """Of the hooks: what calls whatever makes such a phase."""
        self.last: StepSpans | None = None
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

    def read(self) -> list[StepSpans]:
        """The steps that were completed since the last call."""
        steps, length = self._reader.read(self.events)
        if self.kept is not None:
            self.kept += self.events[:length]
        del self.events[:length]
        if steps:
            self.last = steps[-1]
        return steps

    def last_s(self) -> float:
        """Seconds of the interval that was written last (0 before the first): a hook's own, just after it wrote it."""
        return self.events[-1] - self.events[-2] if self.events and self.events[-3] <= OWN else 0.0

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


def read_again(events: list[Any], moment: Callable[[float], float]) -> list[StepSpans]:
    """The steps of events by another clock, of which `moment` answers what it showed at a time of the first one.

    NaN: that is not known, and no step of which it is so is among them. Nor is the first, which began before them.
    """
    steps: list[StepSpans] = []
    since, part = nan, []
    for what, begin, end in zip(events[::3], events[1::3], events[2::3], strict=True):
        if what <= STEP_END:
            part += [what, moment(begin), moment(end)]
        if what == STEP_END:
            if not any(map(isnan, (since, *part))):
                steps += _Reader(since).read(part)[0]
            since, part = moment(end), []
    return steps


class _Reader:
    """Intervals in the order of their ends -> steps. Knows nothing of the present."""

    def __init__(self, begin: float) -> None:
        self.num_of: Counter[int] = Counter()
        """How often each thing was written, in the steps so far."""
        self._begin = begin

    def read(self, events: list[Any]) -> tuple[list[StepSpans], int]:
        """The steps that are whole, and the length of their part of the list."""
        steps, kinds, start = [], events[::3], 0
        for _ in range(kinds.count(STEP_END)):
            stop = kinds.index(STEP_END, start) + 1
            steps.append(self._step(kinds[start:stop], events[3 * start : 3 * stop]))
            start = stop
        self.num_of.update(kinds[:start])
        return steps, 3 * start

    def _step(self, kinds: list[int], events: list[Any]) -> StepSpans:
        since, end_s = self._begin, events[-1]
        pieces: list[record.Piece] = []
        outer: list[record.Piece] = []
        brought: dict[int, list[Any]] = {LOSS: [], SAMPLES: [], EPOCH: [], LOADER: [], STEP_END: []}
        triples = iter(events)
        for what, told, end in zip(triples, triples, triples, strict=True):
            if what <= OWN:
                begin = told if told > since else since  # it may have begun in an earlier one
                seconds = end - begin
                # What lies within it was written before it, and its time is not counted twice.
                while outer and outer[-1][1] >= begin:
                    _, inner_begin, inner_end, _ = outer.pop()
                    seconds -= inner_end - inner_begin
                piece = (_PHASE_OF[what], begin, end, seconds)
                outer.append(piece)
                pieces.append(piece)
            else:
                brought[what].append(told)
        num_looks = kinds.count(LOOK)
        step = StepSpans(
            begin=since,
            end=end_s,
            pieces=pieces,
            spent=record.sums_of(pieces, end_s - since)[: record.OWN],
            losses=brought[LOSS],
            start_s=sum(brought[EPOCH]),
            loaders=brought[LOADER],
            num_samples=sum(brought[SAMPLES]) if brought[SAMPLES] else None,
            num_updates=kinds.count(STEP),
            num_forwards=kinds.count(TRAIN) + kinds.count(FORWARD) + num_looks,
            epoch_started=bool(brought[EPOCH]),
        )
        if num_looks:
            _set_apart(step, kinds, events)
        self._begin = end_s
        return step


_USES = frozenset({LOOK, TRAIN, BACKWARD})


def _by_batch(kinds: list[int]) -> list[tuple[int, int]]:
    """(begin, end) of the parts of a step, cut where another batch is drawn: of what is drawn one behind the other, as
    by `zip`, one forward or backward pass uses all."""
    cuts = [0]
    for k, what in enumerate(kinds):
        if what == DRAW and not _USES.isdisjoint(kinds[cuts[-1] : k]):
            cuts.append(k)
    return list(pairwise([*cuts, len(kinds)]))


def _last(what: int, kinds: list[int], begin: int, end: int) -> int:
    return end - 1 - kinds[begin:end][::-1].index(what)


def _drawn(kinds: list[int], begin: int, end: int, *, started: bool = True) -> int | None:
    """Where in a part its loader was `started`, else where its (last) batch was drawn; None without one."""
    if started and EPOCH in kinds[begin:end]:
        end = kinds.index(EPOCH, begin)
    return _last(DRAW, kinds, begin, end) if DRAW in kinds[begin:end] else None


def _set_apart(step: StepSpans, kinds: list[int], events: list[Any]) -> None:
    """Batches of a step that are only looked at, and the stretch from the first forward pass without training to the
    last: no backward pass lies between such a batch and the next one.

    The stretch begins where the loader of the first such pass was started, or where its batch was drawn if the loader
    was started in an earlier step or that batch is trained on as well; it ends where the next thing of training begins.
    """
    told, parts = events[1::3], _by_batch(kinds)
    if step.loaders or step.epoch_started:
        trained = [(a, b) for a, b in parts if BACKWARD in kinds[a:b] or LOOK not in kinds[a:b]]
        starts = [told[k] for a, b in trained for k in range(a, b) if kinds[k] == EPOCH]
        step.epoch_started, step.start_s = bool(starts), sum(starts)
        step.loaders = [told[k] for a, b in trained for k in range(a, b) if kinds[k] == LOADER]
    looking = [(a, b) for a, b in parts if LOOK in kinds[a:b]]
    untrained = [(a, b) for a, b in looking if TRAIN not in kinds[a:b] and BACKWARD not in kinds[a:b]]
    first = _drawn(kinds, *looking[0], started=looking[0] in untrained)
    begin = max(step.begin, told[kinds.index(LOOK) if first is None else first])
    stop = looking[-1][1]
    last = _last(LOOK, kinds, 0, stop)
    drawn = next((_drawn(kinds, a, b) for a, b in parts if a == stop), None)
    if drawn is not None:
        end = told[drawn]
    else:
        end = told[kinds.index(TRAIN, last)] if TRAIN in kinds[last:] else events[3 * last + 2]
    inside = [piece for piece in step.pieces if piece[1] >= begin and piece[2] <= end]
    step.aside = Stretch(
        spent=record.sums_of(inside, end - begin)[: record.OWN],
        num_looks=kinds.count(LOOK),
        num_samples=sum(told[k] for a, b in untrained for k in range(a, b) if kinds[k] == SAMPLES),
        at=(begin, end),
    )
