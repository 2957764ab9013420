"""Predictions -> one HTML page without scripts: step time against devices, with intervals, on a logarithmic axis."""

import math
from collections.abc import Sequence
from html import escape

from hotlap.record import Prediction
from hotlap.units import duration

_ROW = 26
_LEFT = 220
_WIDTH = 520
_STYLE = "body{font:15px system-ui,sans-serif;margin:2em;max-width:60em}text{font:13px system-ui,sans-serif}"


def render(found: Sequence[Prediction], *, title: str, measured: tuple[str, float] | None = None) -> str:
    """The page. `measured`: device and seconds of the step that was measured, drawn as a line."""
    notes = dict.fromkeys(note for one in found for note in one.assumptions)
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}: foretold</title>'
        f"<style>{_STYLE}</style><h1>{escape(title)}, foretold</h1>{_plot(found, measured)}"
        f"<p>Bars are 80% intervals.</p><h2>Assumed</h2><ul>{listed}</ul></html>\n"
    )


def _plot(found: Sequence[Prediction], measured: tuple[str, float] | None) -> str:
    ends = [value for one in found for value in (one.step_s.low, one.step_s.high)]
    ends += [measured[1]] if measured else []
    low, high = math.log(min(ends) * 0.9), math.log(max(ends) * 1.1)

    def x(seconds: float) -> float:
        return _LEFT + _WIDTH * (math.log(seconds) - low) / (high - low)

    height = _ROW * (len(found) + 1)
    parts = [f'<svg role="img" aria-label="Step time by device" width="{_LEFT + _WIDTH + 120}" height="{height}">']
    if measured:
        here = x(measured[1])
        parts.append(f'<line x1="{here:.1f}" x2="{here:.1f}" y1="0" y2="{height - _ROW}" stroke="#999"/>')
        label = escape(f"{duration(measured[1])} on {measured[0]}")
        parts.append(f'<text x="{here:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    for index, one in enumerate(found):
        y = _ROW * index + _ROW / 2
        name = f"{one.count} x {one.device}" if one.count > 1 else one.device
        step = one.step_s
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<line x1="{x(step.low):.1f}" x2="{x(step.high):.1f}" y1="{y}" y2="{y}" stroke="#36c" stroke-width="6"/>'
        )
        parts.append(f'<circle cx="{x(step.mid):.1f}" cy="{y}" r="5" fill="#124"/>')
        parts.append(f'<text x="{x(step.high) + 8:.1f}" y="{y + 4:.1f}">{escape(duration(step.mid))}</text>')
    parts.append("</svg>")
    return "".join(parts)
