"""A run of any length in bounded room: what happened when (stretches), and the steps that stood out (outliers)."""

from dataclasses import dataclass

from hotlap.record.moments import Number, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Successive steps, summed up. Stretches follow each other, all of one length but the last; steps that were
    looked at closely are in none."""

    first_step: int
    """Number in the training, from 0: the warm-up counts."""
    num_steps: int
    mean_s: float
    p50_s: float
    """Quantiles are right to 1% of their value."""
    p90_s: float
    loss: Number = None
    """Mean of those that are finite; None without one."""
    num_not_finite: int = 0
    """Losses that were NaN or infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """One of the longest steps of a run."""

    step: int
    step_s: float
    phase: Phase
    """Where most of the time beyond the usual went."""
    excess_s: float
    """So much more than usual was spent in that phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """All recorded steps of a run that was followed to its end; `Run.step_s` holds a sample of them."""

    num_steps: int
    total_s: float
    """Sum of all step times."""
    mean_s: float
    p50_s: float
    """Quantiles are right to 1% of their value."""
    p90_s: float
    p99_s: float
    stretches: tuple[Stretch, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    """The longest steps, longest first; at most 64."""
