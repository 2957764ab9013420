"""Predictions -> a picture of step times by device, with intervals, on a logarithmic axis; and a page around it."""

from collections.abc import Iterator, Sequence
from html import escape

from hotlap.record import Prediction
from hotlap.report.clean import clean
from hotlap.report.scale import LogScale
from hotlap.units import duration

_ROW = 26
_LEFT = 230
_WIDTH = 480
_RIGHT = 110
# On a telephone pictures scroll: made narrower, their letters could not be read.
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;overflow-wrap:anywhere}"
    "figure{margin:0;overflow-x:auto}svg{min-width:42em;max-width:100%}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# 1, 2 and 5 in each decade that the axis covers; all of them only where it covers few.
# No step takes less, or more; an axis that reached further would leave the range of numbers.
_LEAST_S, _MOST_S = 1e-12, 1e12


def page(
    found: Sequence[Prediction],
    *,
    title: str,
    measured: tuple[str, float] | None = None,
    lead: Sequence[str] = (),
    below: str = "",
) -> str:
    """A whole page.

    Arguments:
        measured: device and seconds of the step that was measured, drawn as a line.
        lead: sentences above the picture.
        below: a further picture, as an SVG element.
    """
    notes = dict.fromkeys(note for one in found for note in one.assumptions)
    listed = "".join(f"<li>{_text(note)}</li>" for note in notes)
    heading, sentences = _text(title), "".join(f"<p>{_text(one)}</p>" for one in lead)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{heading}: predicted</title>'
        f"<style>{_STYLE}</style><h1>{heading}, predicted</h1>{sentences}"
        f"<figure>{plot(found, measured=measured)}</figure><p>Time per step, on a logarithmic axis. Bars are 80% "
        f"intervals: eight of ten truths should lie inside.</p><figure>{below}</figure>"
        f"<h2>Assumed</h2><ul>{listed}</ul></html>\n"
    )


def plot(found: Sequence[Prediction], *, measured: tuple[str, float] | None = None) -> str:
    """An SVG element, all texts escaped; "" where there is nothing that can be drawn."""
    drawn = [one for one in found if _LEAST_S < one.step_s.low <= one.step_s.mid <= one.step_s.high < _MOST_S]
    if measured and not _LEAST_S < measured[1] < _MOST_S:
        measured = None
    if not drawn:
        return ""
    ends = [value for one in drawn for value in (one.step_s.low, one.step_s.high)]
    ends += [measured[1]] if measured else []
    axis = LogScale(min(ends) * 0.9, max(ends) * 1.1)
    height = _ROW * (len(drawn) + 2)
    width = _LEFT + _WIDTH + _RIGHT
    parts = [
        f'<svg role="img" aria-label="Step time by device" viewBox="0 0 {width} {height}" width="{width}" '
        'font-family="system-ui,sans-serif" font-size="13" fill="currentColor">'
    ]
    parts += _scale(axis, height)
    if measured:
        x = _x(axis, measured[1])
        label = _text(f"{duration(measured[1])} on {measured[0]}")
        parts.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{height - 2 * _ROW}" stroke="#c60" stroke-dasharray="4 3"/>')
        # Beside the line, on the side that has more room: names of processors are long.
        anchor, beside = ("start", x + 6) if x < width / 2 else ("end", x - 6)
        parts.append(f'<text x="{beside}" y="{height - _ROW - 6}" text-anchor="{anchor}" fill="#c60">{label}</text>')
    for index, one in enumerate(drawn):
        parts += _row(axis, one, _ROW * index + _ROW / 2)
    return "".join((*parts, "</svg>"))


def _x(axis: LogScale, seconds: float) -> float:
    return round(_LEFT + _WIDTH * axis.place(seconds) / 100, 1)


def _scale(axis: LogScale, height: int) -> Iterator[str]:
    for seconds in axis.ticks():
        x = _x(axis, seconds)
        yield f'<line x1="{x}" x2="{x}" y1="0" y2="{height - 2 * _ROW}" stroke="currentColor" stroke-opacity="0.15"/>'
        yield f'<text x="{x}" y="{height - 6}" text-anchor="middle" fill-opacity="0.7">{duration(seconds)}</text>'


def _row(axis: LogScale, one: Prediction, y: float) -> Iterator[str]:
    step = one.step_s
    low, mid, high = _x(axis, step.low), _x(axis, step.mid), _x(axis, step.high)
    yield f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{_text(one.title)}</text>'
    yield f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="#36c" stroke-width="6" stroke-opacity="0.6"/>'
    yield f'<circle cx="{mid}" cy="{y}" r="5" fill="#36c"/>'
    # Edged with the page's colour: the line of the measured step may cross it.
    halo = 'paint-order="stroke" stroke="Canvas" stroke-width="4"'
    yield f'<text x="{high + 8}" y="{y + 4}" {halo}>{_text(duration(step.mid))}</text>'


def _text(text: str) -> str:
    return escape(clean(text))
