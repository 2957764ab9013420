"""Numbers -> text. Everything inside hotlap is SI; units appear here, at the edge, and nowhere else."""

import math
import re

# "8GB" is 8e9 bytes, "8GiB" and "8G" are 8 * 2**30 (as docker and cgroups read them); bytes without a unit.
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?B)?|B)?", re.IGNORECASE)

# Seconds of a unit, and of the one that its rest is told in.
_LONG = ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))

# Of three: what is rounded to 1,000 of a unit is 1 of the next.
_HALF_A_DIGIT = 5e-4


def duration(seconds: float) -> str:
    """`seconds` with three digits and the unit that fits: "2.31 ms", "41 us", "3 min 20 s", "13 h 7 min"."""
    size = abs(seconds)
    if not math.isfinite(seconds):
        return "unknown"
    for unit_s, unit, rest_s, rest_unit in _LONG:
        number, rest = divmod(round(size / rest_s), unit_s // rest_s)
        if number:
            text = f"{number} {unit} {rest} {rest_unit}" if rest else f"{number} {unit}"
            return f"-{text}" if seconds < 0 else text
    if size >= 1 - _HALF_A_DIGIT:
        return f"{_digits(seconds)} s"
    if size >= (1 - _HALF_A_DIGIT) * 1e-3:
        return f"{_digits(seconds * 1e3)} ms"
    return f"{_digits(seconds * 1e6)} us"


def percent(share: float) -> str:
    """A share in [0, 1] as "40%"; below 1% with one decimal."""
    value = 100 * share
    return f"{value:.1f}%" if 0 < abs(value) < 1 else f"{value:.0f}%"


def factor(ratio: float) -> str:
    """A speed-up as "2.31x"."""
    return f"{ratio:.2f}x" if ratio < 100 else f"{ratio:.0f}x"


def count(number: float) -> str:
    """A mean of counts: "2.5", "2,811"."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def size(num_bytes: float) -> str:
    """Bytes as "1.5 GiB"."""
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{_digits(value)} {unit}"
        value /= 1024
    return f"{_digits(value)} TiB"


def plural(count: int, noun: str) -> str:
    """ "1 step", "1,880 steps", "2 processes"."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}"


def between(low: str, high: str) -> str:
    """ "510 to 980 us" of "510 us" and "980 us": the unit once where both have the same."""
    (number, *unit), (_, *other) = low.split(), high.split()
    return f"{number if unit == other else low} to {high}"


def num_bytes(text: str) -> int | None:
    """ "1.5 GiB", "500MB", "8G" or "4096" -> bytes; None if it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    base = 1000 if (match[3] or "").upper() == "B" else 1024
    return int(float(match[1]) * base ** (" KMGT".index((match[2] or " ").upper())))


def _digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(float(f"{abs(value):.3g}"))))
    return f"{value:.{decimals}f}"
