"""Successive steps of two runs -> blocks on lanes, on one axis of time.

Of a measured run it is known how long each phase took within a step, not when it came: that is drawn in the usual order
of a training loop, on the lanes loader, copy and host. Of a trace the moments are known, and drawn as they were.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import ceil, floor, isfinite
from statistics import median

from hotlap.record import Excerpt, Phase, Run
from hotlap.report.scale import nice_ticks, percent_of
from hotlap.report.story import PHASE_ORDER
from hotlap.units import duration

# The usual order of a training loop; the record holds how long each phase took within a step, not when it came. What
# the script does besides (printing, `loss.item()`) mostly follows the update, so it opens the next step.
DRAWN_ORDER = (
    Phase.OTHER,
    Phase.INPUT,
    Phase.TRANSFER,
    Phase.FORWARD,
    Phase.BACKWARD,
    Phase.COMMUNICATION,
    Phase.OPTIMIZER,
    Phase.SYNC,
)
# Waiting for these is waiting for the batch.
LOADER_PHASES = frozenset({Phase.INPUT, Phase.TRANSFER})
LETTERS = {
    Phase.INPUT: "I",
    Phase.TRANSFER: "T",
    Phase.FORWARD: "F",
    Phase.BACKWARD: "B",
    Phase.COMMUNICATION: "C",
    Phase.OPTIMIZER: "O",
    Phase.SYNC: "S",
    Phase.OTHER: "X",
}
# Narrower blocks have no room for a letter on a phone (3% of 330 pixels are 10).
LETTER_PERCENT = 3.0
# More blocks than this are a grey band; fewer than two steps before would show no rhythm.
MAX_STEPS_AFTER = 24
MOST_STEPS_BEFORE = 6
# With nothing beside it, and a zoom, there is room for more.
MOST_STEPS_ALONE = 24
MAX_STEPS_DRAWN = 400
# A page with more is slow to open.
MAX_SPANS_DRAWN = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of time on a lane."""

    phase: Phase
    x: float
    width: float
    letter: str
    """Empty where there is no room for it."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What one part of the machine did; between the blocks it had nothing to do."""

    name: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """Successive steps of one run."""

    lanes: tuple[Lane, ...]
    """Loader, copy and host; without copies loader and trainer. Of a trace those that it shows."""
    step_ends: tuple[float, ...]
    num_steps: int
    """Steps that are drawn and end within the time shown."""
    num_fit: int
    """Steps that fit in it: more, where fewer were recorded, or can be told apart, than it takes to fill it."""
    first_step: int
    """Number of the first step shown, counted from the start of the record."""
    waiting_share: float
    """Part of the time shown in which the trainer waited for its batch, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The lanes of two runs on one axis of time."""

    span_s: float
    ticks: tuple[tuple[float, str], ...]
    before: Lanes
    after: Lanes | None
    shown: tuple[Phase, ...]
    as_it_was: bool = False
    """Each block stands where it really was; else in the usual order."""


def timeline(before: Run | None, after: Run | None) -> Timeline | None:
    """The picture of the two lanes; None when the phases of the baseline were not measured."""
    if before is None or not _drawable(before):
        return None
    if before.excerpt is not None:
        return _as_it_was(before, before.excerpt)
    after = after if after is not None and _drawable(after) else None
    count = min(_num_steps_before(before, after), len(before.step_s))
    start = typical_stretch(before.step_s, count)
    span_s = sum(before.step_s[start : start + count])
    if not (isfinite(span_s) and span_s > 0):
        return None
    drawn = _lanes(before, start=start, span_s=span_s)
    return Timeline(
        span_s=span_s,
        ticks=_ticks(span_s),
        before=drawn,
        after=_after(after, span_s=span_s) if after is not None else None,
        shown=tuple(phase for phase in PHASE_ORDER if _appears(phase, before) or (after and _appears(phase, after))),
    )


def _as_it_was(run: Run, excerpt: Excerpt) -> Timeline | None:
    """The steps of a trace."""
    steps = run.step_s[excerpt.first : excerpt.first + excerpt.num_steps]
    span_s = sum(steps)
    if not (isfinite(span_s) and span_s > 0):
        return None
    drawn: dict[str, list[Block]] = {}
    for span in excerpt.spans[:MAX_SPANS_DRAWN]:
        begin, end = percent_of(span.begin_s, span_s), percent_of(span.end_s, span_s)
        drawn.setdefault(span.lane, []).append(
            Block(
                phase=span.phase,
                x=begin,
                width=end - begin,
                letter=LETTERS[span.phase] if end - begin >= LETTER_PERCENT else "",
                title=f"{span.phase.value} {duration(span.end_s - span.begin_s)}",
            )
        )
    waited_s = sum((run.phase_s.get(Phase.INPUT) or (0.0,) * len(run.step_s))[excerpt.first :][: excerpt.num_steps])
    return Timeline(
        span_s=span_s,
        ticks=_ticks(span_s),
        before=Lanes(
            lanes=tuple(Lane(name=name, blocks=tuple(blocks)) for name, blocks in drawn.items()),
            step_ends=tuple(percent_of(end_s, span_s) for end_s in accumulate(steps)),
            num_steps=len(steps),
            num_fit=len(steps),
            first_step=excerpt.first,
            waiting_share=percent_of(waited_s, span_s) / 100,
        ),
        after=None,
        shown=tuple(phase for phase in PHASE_ORDER if any(span.phase is phase for span in excerpt.spans)),
        as_it_was=True,
    )


def _ticks(span_s: float) -> tuple[tuple[float, str], ...]:
    """Round times on the axis, all in one unit."""
    unit_s, unit = next((one for one in ((1.0, "s"), (1e-3, "ms")) if span_s >= one[0]), (1e-6, "us"))
    return tuple((percent_of(tick, span_s), f"{tick / unit_s:.4g} {unit}") for tick in nice_ticks(span_s))


def typical_stretch(step_s: Sequence[float], count: int) -> int:
    """Index of the first stretch of `count` steps whose length is closest to `count` median steps."""
    usual_s = count * median(step_s)
    ends = [0.0, *accumulate(step_s)]
    return min(range(len(step_s) - count + 1), key=lambda i: abs(ends[i + count] - ends[i] - usual_s))


def _num_steps_before(before: Run, after: Run | None) -> int:
    """So many that both sides show a rhythm, and neither is a grey band."""
    if after is None:
        return MOST_STEPS_ALONE
    ratio = before.median_step_s() / after.median_step_s()
    return max(2, min(MOST_STEPS_BEFORE, floor(MAX_STEPS_AFTER / ratio))) if ratio > 0 and isfinite(ratio) else 2


def _after(run: Run, *, span_s: float) -> Lanes:
    """The stretch of `run` that fills `span_s`, chosen as the other was: by being typical."""
    count = max(1, min(ceil(span_s / run.median_step_s()), len(run.step_s), MAX_STEPS_DRAWN))
    return _lanes(run, start=typical_stretch(run.step_s, count), span_s=span_s)


def _lanes(run: Run, *, start: int, span_s: float) -> Lanes:
    """Blocks of the steps of `run` from `start` on, as far as they begin within `span_s`."""
    copies = any(run.phase_s.get(Phase.TRANSFER) or ())
    names = ("loader", "copy", "host") if copies else ("loader", "trainer")
    drawn: dict[str, list[Block]] = {name: [] for name in names}
    lane_of = {Phase.INPUT: "loader", Phase.TRANSFER: "copy" if copies else "loader"}
    ends: list[float] = []
    now_s = 0.0
    waited_s = 0.0
    num_whole = 0
    for i in islice(range(start, len(run.step_s)), MAX_STEPS_DRAWN):
        if now_s >= span_s * (1 - 1e-9):
            break
        for block, block_s in _step(run.phase_s, i, start_s=now_s, length_s=run.step_s[i], span_s=span_s):
            drawn[lane_of.get(block.phase, names[-1])].append(block)
            waited_s += block_s if block.phase in LOADER_PHASES else 0.0
        now_s += run.step_s[i]
        if now_s <= span_s * (1 + 1e-9):
            num_whole += 1
            ends.append(percent_of(now_s, span_s))
    shown_s = min(now_s, span_s)
    return Lanes(
        lanes=tuple(Lane(name=name, blocks=tuple(blocks)) for name, blocks in drawn.items()),
        step_ends=tuple(ends),
        num_steps=num_whole,
        num_fit=num_whole if now_s >= span_s * (1 - 1e-9) else floor(span_s / run.median_step_s()),
        first_step=start,
        waiting_share=percent_of(waited_s, shown_s) / 100,
    )


def _step(
    phase_s: Mapping[Phase, tuple[float, ...] | None], i: int, *, start_s: float, length_s: float, span_s: float
) -> Iterator[tuple[Block, float]]:
    """The blocks of step `i` and how much of each is shown; nothing is drawn beyond `span_s` or the step's own end."""
    now_s = start_s
    limit_s = min(start_s + length_s, span_s)
    for phase in DRAWN_ORDER:
        parts = phase_s.get(phase)
        if parts is None or i >= len(parts) or parts[i] <= 0:
            continue
        end_s = min(now_s + parts[i], limit_s)
        width = percent_of(end_s - now_s, span_s)
        if width > 0:
            letter = LETTERS[phase] if width >= LETTER_PERCENT else ""
            title = f"{phase.value} {duration(parts[i])}"
            yield (
                Block(phase=phase, x=percent_of(now_s, span_s), width=width, letter=letter, title=title),
                end_s - now_s,
            )
        now_s = end_s


def _drawable(run: Run) -> bool:
    return bool(run.step_s) and all(0 < s < 1e9 for s in run.step_s) and any(run.phase_s.values())


def _appears(phase: Phase, run: Run) -> bool:
    return bool(run.mean_phase_s(phase))
