"""Successive steps of two runs, as they went -> blocks on lanes, on one axis of time."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, isfinite, log10

from hotlap.record import Excerpt, Phase, Run
from hotlap.report.story import LETTERS, percent_of
from hotlap.units import duration

# Narrower blocks have no room for a letter on a phone (3% of 330 pixels are 10).
LETTER_PERCENT = 3.0
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
class Lanes:
    """Successive steps of one run."""

    lanes: Mapping[str, list[Block]]
    """What loader and host did, or of a trace the parts that it shows; between the blocks they had nothing to do."""
    step_ends: tuple[float, ...]
    """Of those within the time shown."""
    waiting_share: float
    """Part of the time shown in which the host waited for its batch, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The lanes of two runs on one axis of time."""

    span_s: float
    ticks: tuple[tuple[float, str], ...]
    before: Lanes
    after: Lanes | None
    shown: tuple[Phase, ...]


def timeline(before: Run | None, after: Run | None) -> Timeline | None:
    """The picture of the two lanes; None when nobody saw how steps of the baseline went."""
    if before is None or before.excerpt is None or not _drawable(before.excerpt):
        return None
    one, other = before.excerpt, after.excerpt if after is not None else None
    other = other if other is not None and _drawable(other) else None
    span_s = one.ends_s[-1]
    if other is not None:
        # The time of which it is known how both went, and one whole step at least.
        span_s = max(one.ends_s[0], min(span_s, other.ends_s[-1]))
    drawn = {span.phase for shown in (one, other) if shown is not None for span in shown.spans}
    return Timeline(
        span_s=span_s,
        ticks=_ticks(span_s),
        before=_lanes(one, span_s=span_s),
        after=None if other is None else _lanes(other, span_s=span_s),
        shown=tuple(phase for phase in LETTERS if phase in drawn),
    )


def _ticks(span_s: float) -> tuple[tuple[float, str], ...]:
    """Round times on the axis, all in one unit."""
    unit_s, unit = next((one for one in ((1.0, "s"), (1e-3, "ms")) if span_s >= one[0]), (1e-6, "us"))
    return tuple((percent_of(tick, span_s), f"{tick / unit_s:.4g} {unit}") for tick in nice_ticks(span_s))


def nice_ticks(span: float) -> tuple[float, ...]:
    """Round values from 0 up to `span`, about five of them; more than one unless `span` is out of range."""
    raw = span / 5
    if not (isfinite(raw) and raw > 0):
        return (0.0,)
    power = 10.0 ** floor(log10(raw))
    width = next((nice * power for nice in (1, 2, 5) if nice * power >= raw), 10 * power)
    return tuple(i * width for i in range(floor(span / width * (1 + 1e-9)) + 1)) if width > 0 else (0.0,)


def _lanes(excerpt: Excerpt, *, span_s: float) -> Lanes:
    """As much of it as lies within `span_s`."""
    blocks = _blocks(excerpt, span_s)
    shown_s = min(span_s, excerpt.ends_s[-1])
    waited_s = sum(
        max(0.0, min(span.end_s, shown_s) - span.begin_s)
        for span in excerpt.spans
        if span.phase is Phase.INPUT and span.begin_s < shown_s
    )
    return Lanes(
        # The same order on both sides, whatever their excerpts begin with: batches come first.
        lanes={name: blocks[name] for name in sorted(blocks, key="loader".__ne__)},
        step_ends=tuple(percent_of(end_s, span_s) for end_s in excerpt.ends_s if end_s <= span_s * (1 + 1e-9)),
        waiting_share=percent_of(waited_s, shown_s) / 100,
    )


def _blocks(excerpt: Excerpt, span_s: float) -> dict[str, list[Block]]:
    blocks: dict[str, list[Block]] = {}
    for span in excerpt.spans[:MAX_SPANS_DRAWN]:
        begin, end = percent_of(span.begin_s, span_s), percent_of(min(span.end_s, span_s), span_s)
        if end > begin:
            block = Block(
                phase=span.phase,
                x=begin,
                width=end - begin,
                letter=LETTERS[span.phase] if end - begin >= LETTER_PERCENT else "",
                title=f"{span.phase.value} {duration(span.end_s - span.begin_s)}",
            )
            blocks.setdefault(span.lane, []).append(block)
    return blocks


def _drawable(excerpt: Excerpt) -> bool:
    return bool(excerpt.spans and excerpt.ends_s) and all(0 < end_s < 1e9 for end_s in excerpt.ends_s)
