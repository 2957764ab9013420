"""Values -> places in percent of the width or height that there is.

Percent, not pixels, so that a picture fits a phone and a wall, and the letters in it are not stretched.
"""

from math import floor, isfinite, log10


def nice_ticks(span: float) -> tuple[float, ...]:
    """Round values from 0 up to `span`, about five of them; more than one unless `span` is out of range."""
    raw = span / 5
    if not (isfinite(raw) and raw > 0):
        return (0.0,)
    power = 10.0 ** floor(log10(raw))
    width = next((nice * power for nice in (1, 2, 5) if nice * power >= raw), 10 * power)
    return tuple(i * width for i in range(floor(span / width * (1 + 1e-9)) + 1)) if width > 0 else (0.0,)


def percent_of(part: float, whole: float) -> float:
    """Part of the width, in [0, 100]; 0 where that makes no sense."""
    share = 100 * part / whole if whole > 0 else 0.0
    return round(min(max(share, 0.0), 100.0), 3) if isfinite(share) else 0.0
