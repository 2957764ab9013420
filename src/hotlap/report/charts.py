"""Phases -> the geometry of their bars, in percent of the room that there is."""

from dataclasses import dataclass

from hotlap.record import Phase, Run
from hotlap.report.scale import percent_of
from hotlap.report.story import LETTERS, phases
from hotlap.units import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBar:
    """One phase before and after; widths in percent of the longest. None: not measured, or no such run."""

    phase: Phase
    before: str
    before_width: float | None
    after: str
    after_width: float | None


def phase_bars(before: Run | None, after: Run | None) -> tuple[PhaseBar, ...]:
    """Mean time a step spends on each phase, before and after; without those that neither run saw."""
    parts = [
        {part.phase: part for part in phases(run)} if run is not None and run.step_s else {} for run in (before, after)
    ]
    longest_s = max((part.mean_s or 0.0 for side in parts for part in side.values()), default=0.0)
    bars = []
    for phase in LETTERS:
        if all(phase not in side or side[phase].mean_s is None for side in parts):
            continue
        texts, widths = [], []
        for side, run in zip(parts, (before, after), strict=True):
            part = side.get(phase)
            mean_s = part.mean_s if part else (0.0 if run is not None and phase in run.phase_s else None)
            texts.append(
                "not measured" if mean_s is None else f"{duration(mean_s)} ({percent(part.share if part else 0)})"
            )
            widths.append(None if mean_s is None else percent_of(mean_s, longest_s))
        bars.append(
            PhaseBar(phase=phase, before=texts[0], before_width=widths[0], after=texts[1], after_width=widths[1])
        )
    return tuple(bars)
