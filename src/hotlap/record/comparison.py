"""Two studies of one training, side by side: is the second slower?"""

from dataclasses import dataclass
from enum import StrEnum

from hotlap.record.interval import Interval
from hotlap.record.moments import Phase
from hotlap.record.plan import SCHEMA


class Change(StrEnum):
    """What may be said about the step time of the second study against the first."""

    SLOWER = "slower"
    """By more than the limit, clearly."""
    WITHIN = "within"
    """Not slower by more than the limit, clearly."""
    UNDECIDED = "undecided"
    """The interval holds the limit: a slower step cannot be told from chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseChange:
    """Mean seconds a step in one phase; None where it was not measured."""

    phase: Phase
    base_s: float | None
    other_s: float | None
    difference_s: Interval | None = None
    """Of `other_s - base_s`, within the two runs; None where one of them is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartChange:
    """Seconds a step of one kind of kernel, or of one reason why the device idled; 0 where there was none."""

    name: str
    base_s: float
    other_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The outcome of `hotlap compare`."""

    base: str
    """Path as it was given."""
    other: str
    base_step_s: float
    """Mean step, rare pauses cut down."""
    other_step_s: float
    ratio: Interval | None
    """Step of `other` over step of `base`: above 1 it is slower. None of recorded traces with too few steps for it."""
    between_runs: float | None
    """Standard deviation of the logarithm of the ratio of two equal runs, which the interval covers; None: not known,
    and the interval covers only what varies within the two runs."""
    change: Change
    limit: float | None = None
    """The regression that is tolerated, e.g. 0.05; None: none was given, and `change` is judged against 0."""
    phases: tuple[PhaseChange, ...] = ()
    parts: tuple[PartChange, ...] = ()
    """Of the device, where traces tell; what changed most first."""
    differences: tuple[str, ...] = ()
    """What differs between the two besides the code: sentences. Not empty only where the user allowed it."""
    schema: int = SCHEMA
