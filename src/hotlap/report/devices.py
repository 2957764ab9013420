"""Predictions -> a picture of step times by device, with intervals; and a page around it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

from hotlap.record import Prediction
from hotlap.report.clean import clean
from hotlap.report.scale import LogScale
from hotlap.units import duration

_ROW = 26
_LEFT, _WIDTH, _RIGHT = 230, 480, 110
# On a telephone pictures scroll: made narrower, their letters could not be read.
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;overflow-wrap:anywhere}"
    "figure{margin:0;overflow-x:auto}svg{min-width:42em;max-width:100%}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# No step takes less, or more; an axis that reached further would leave the range of numbers.
_LEAST_S, _MOST_S = 1e-12, 1e12


def page(
    found: Sequence[Prediction],
    *,
    title: str,
    measured: tuple[str, float] | None = None,
    lead: Sequence[str] = (),
) -> str:
    """A whole page.

    Arguments:
        measured: device and seconds of the step that was measured, drawn as a line.
        lead: sentences above the picture.
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
        f"intervals: eight of ten truths should lie inside.</p>"
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
    bottom, width = _ROW * len(drawn), _LEFT + _WIDTH + _RIGHT
    parts = [*_vertical(axis, duration, _LEFT, _WIDTH, 0, bottom, bottom + 2 * _ROW - 6)]
    if measured:
        x = _along(axis, measured[1], _LEFT, _WIDTH)
        # Beside the line, on the side that has more room: names of processors are long.
        anchor, beside = ("start", x + 6) if x < width / 2 else ("end", x - 6)
        told = f"{duration(measured[1])} on {measured[0]}"
        parts.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{bottom}" stroke="#c60" stroke-dasharray="4 3"/>')
        parts.append(_words(beside, bottom + _ROW - 6, told, anchor, ' fill="#c60"'))
    for index, one in enumerate(drawn):
        parts += _row(axis, one, _ROW * index + _ROW / 2)
    return _svg("Step time by device", width, bottom + 2 * _ROW, parts)


def _row(axis: LogScale, one: Prediction, y: float) -> Iterator[str]:
    step = one.step_s
    low, mid, high = (_along(axis, value, _LEFT, _WIDTH) for value in (step.low, step.mid, step.high))
    yield _words(_LEFT - 10, y + 4, one.title, "end")
    yield f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="#36c" stroke-width="6" stroke-opacity="0.6"/>'
    yield f'<circle cx="{mid}" cy="{y}" r="5" fill="#36c"/>'
    # Edged with the page's colour: the line of the measured step may cross it.
    halo = ' paint-order="stroke" stroke="Canvas" stroke-width="4"'
    yield _words(high + 8, y + 4, duration(step.mid), "start", halo)


def _along(axis: LogScale, value: float, start: float, length: float) -> float:
    return round(start + length * axis.place(value) / 100, 1)


_FAINT = 'stroke="currentColor" stroke-opacity="0.15"'


def _vertical(
    axis: LogScale, told: Callable[[float], str], start: float, length: float, top: float, bottom: float, below: float
) -> Iterator[str]:
    """Lines at round values from `top` to `bottom`, and what they are, `below`."""
    for value in axis.ticks():
        x = _along(axis, value, start, length)
        yield f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" {_FAINT}/>'
        yield _words(x, below, told(value), "middle", ' fill-opacity="0.7"')


def _words(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{_text(text)}</text>'


def _svg(label: str, width: float, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui,sans-serif" font-size="13" fill="currentColor">{"".join(parts)}</svg>'
    )


def _text(text: str) -> str:
    return escape(clean(text))
