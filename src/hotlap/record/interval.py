"""A number that was measured, with what is not known about it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A 95% confidence interval, unless its holder says otherwise."""

    low: float
    mid: float
    high: float
