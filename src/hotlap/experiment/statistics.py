"""Log-ratios of step times, one per process -> what may be said about them. The process is the unit of chance.

A ratio here is the logarithm of (step time of the baseline / step time with the lever): above 0 the lever is faster.
One process (or one pair of processes that took turns) gives one such number, however many steps it made: within a
process step times share its memory layout, its clock and its neighbours, so its steps are no independent witnesses.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from hotlap.record import LEAST_GAIN, Interval
from hotlap.student import quantile

Pool = tuple[float, int]
"""Variance within several comparisons of one kind, and its degrees of freedom."""

# The steadiest comparison measured while hotlap was designed (blocks switched inside one process, quiet machine) had a
# standard deviation of 0.7% between processes. A sample below this is luck, not precision. (The clock plays no part:
# perf_counter reads to better than 0.1 us, and a ratio rests on some hundreds of steps.)
LEAST_SD = 0.005
# A comparison whose own variance is this unlikely under the pool does not belong to it, and stands alone.
FOREIGN_P = 0.01
# What all looks of one trial together may spend on a false "gain". Half of the 1% that hotlap promises: the other
# half is for noise that is not normal (see `Rule`).
FALSE_GAIN = 0.005
# The same for the comparison that confirms a study, which is of what gained already. If forty levers that bring nothing
# were tried, in a fifth of all studies (40 x FALSE_GAIN) one of them came so far; this leaves a false claim in 0.5% of
# all studies, again half of the 1%.
FALSE_CONFIRMATION = 0.025
# An interval is shown from so many processes on: one or two may agree by luck, and what they saw is no more than seen.
FEWEST_SHOWN = 3
# What one look may spend on dropping what is worth it. Generous: a lever near the line is worth little.
FALSE_DROP = 0.05


# Trial groups at most for one comparison, and where one that was left undecided goes on. Fewer when it is clear before.
PLANNED, MOST = 5, 16


class Progress(StrEnum):
    """Where a trial stands after some processes."""

    GAIN = "gain"
    """Faster than the line, clearly enough to stop, and by what counts. The only answer that may be accepted."""
    NO_GAIN = "no-gain"
    """Clearly less than what counts."""
    GO_ON = "go-on"
    """Not clear yet, and more processes are planned."""
    UNSHOWN = "unshown"
    """Not clear, and no more processes are planned, or those that are would hardly make it so."""


def pool(groups: Iterable[Sequence[float]]) -> Pool | None:
    """Log-ratios of several comparisons -> the variance within them; None where none has two."""
    squares, freedom = 0.0, 0
    for group in groups:
        if len(group) > 1:
            center = fmean(group)
            squares += math.fsum((x - center) ** 2 for x in group)
            freedom += len(group) - 1
    return (squares / freedom, freedom) if freedom else None


def contrasts(logs: Sequence[float]) -> list[float]:
    """Logarithms of n equal things measured side by side -> n - 1 independent log-ratios, each as varied as a pair's.

    The k-th compares one with the mean of those before it (Helmert's contrasts), scaled to the variance of the
    difference of two. Three processes of one trial group give as many as two pairs of processes, without the fourth
    start.
    """
    return [(fmean(logs[:k]) - logs[k]) * math.sqrt(2 * k / (k + 1)) for k in range(1, len(logs))]


def interval(log_ratios: Sequence[float], *, pooled_variance: Pool | None = None) -> Interval | None:
    """Log-ratios, one per process -> the 95% interval of the speed-up; None where nothing can be said.

    A t-interval of the mean, with the variance of this comparison and of the others of its scope (`pooled_variance`,
    from `pool`, this one not included) taken together, unless this one varies significantly more than they do. Never
    narrower than `LEAST_SD` allows. One process alone is enough only with a pool.

    Coverage in simulations (tests/property/test_statistics.py): 95% (94% at worst) for normal noise, for heavy tails
    (Student's t, 3 degrees) and for processes in a fast and a slow mode, from three processes on, or from two with a
    pool. It falls short for two processes in two modes without a pool (87%: both pairs may show the same false ratio,
    and nothing betrays it), and for one process with a pool of 4 (92% under heavy tails, 93% with a rare slow mode).
    So a claim needs a `Rule`, which knows this.
    """
    bounds = _bounds(log_ratios, pooled_variance, tail=0.025)
    if bounds is None:
        return None
    low, mid, high = (math.exp(min(x, 700.0)) for x in bounds)
    return Interval(low=low, mid=mid, high=high)


def smallest_gain(log_ratios: Sequence[float], *, num_processes: int = 4) -> float:
    """A/A log-ratios -> the smallest true speed-up that `num_processes` would show (lower bound above 1) 4 times in 5.

    The truth of A/A is 0, so its spread is taken around 0: an offset of one side over the other counts as noise too.
    """
    if not log_ratios or num_processes < 1:
        raise ValueError("the smallest gain needs an A/A ratio, and a process to show it")
    freedom = len(log_ratios) + num_processes - 1
    sd = max(LEAST_SD, math.sqrt(math.fsum(x * x for x in log_ratios) / len(log_ratios)))
    reach = quantile(freedom, 0.975) + quantile(freedom, 0.8)
    return math.exp(min(reach * sd / math.sqrt(num_processes), 700.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When a comparison ends: is it clear whether the speed-up is above `line`, and counts?

    Each look, one after each process, spends a part of `false_gain`; look k gets twice as much as look k - 1 (less than
    that where more than eight are planned), so a large gain stops early and most is left for the last look. The parts
    are simply added up (Bonferroni), which holds however looks depend on one another. A trial that could not become a
    GAIN even if its upper bound were the truth ends early as well. Whatever is a GAIN here has a 95% interval above
    `line`; the reverse does not hold, so accept on GAIN only.
    """

    planned: int = PLANNED
    """Processes at most. Said before the first, as looks are counted."""
    earlier: int = 0
    """Of these so many were looked at by a rule before this one, which left it undecided. What this one spends comes on
    top of what that one spent."""
    line: float = 1.0
    """Speed-up that is certainly exceeded."""
    least: float = LEAST_GAIN
    """Speed-up from which on a gain counts: what was seen of it must reach that."""
    false_gain: float = FALSE_GAIN
    false_drop: float = FALSE_DROP
    patient: bool = False
    """An interval is wanted, not only whether it is a GAIN: no fewer processes than that takes are timed."""

    def progress(self, log_ratios: Sequence[float], pooled: Pool | None) -> Progress:
        """Where a comparison stands that saw these."""
        n = len(log_ratios)
        if self.patient and n < FEWEST_SHOWN:
            return Progress.GO_ON
        looks = max(self.planned, n, self.earlier + 1)
        goal, least = math.log(self.line), math.log(self.least)
        strict = _bounds(log_ratios, pooled, tail=self._spend(n, looks))
        if strict is not None and strict[0] > goal and strict[1] >= least and n >= fewest_for_a_gain(pooled):
            return Progress.GAIN
        loose = _bounds(log_ratios, pooled, tail=self.false_drop)
        if loose is not None and loose[2] < least:
            return Progress.NO_GAIN
        hopeless = (
            not self.patient
            and n > (PLANNED if self.earlier else 1)
            and loose is not None
            and loose[2] < goal + self._margin(log_ratios, pooled, looks)
        )
        return Progress.UNSHOWN if hopeless or n >= self.planned else Progress.GO_ON

    def _spend(self, look: int, looks: int) -> float:
        """What one look of so many may spend on a false gain."""
        own_look, own_looks = look - self.earlier, looks - self.earlier
        growth: float = 2.0 ** min(1.0, 8 / own_looks)
        return self.false_gain * growth ** (own_look - 1) * (growth - 1) / (growth**own_looks - 1)

    def _margin(self, log_ratios: Sequence[float], pooled: Pool | None, looks: int) -> float:
        """How far beyond the line the last look would have to find the mean log-ratio, if the spread stays what it is.

        A trial whose true gain is below this even at best would more likely than not come to nothing: the time is
        better spent on others.
        """
        variance, freedom = _variance(log_ratios, pooled)
        sd = max(LEAST_SD, math.sqrt(variance))
        tail = self._spend(looks, looks)
        return quantile(freedom + looks - len(log_ratios), 1 - tail) * sd / math.sqrt(looks)


def fewest_for_a_gain(pooled_variance: Pool | None) -> int:
    """Processes before which nothing is called a gain, however large it looks.

    Fast and slow processes could fall so as to look like a steady gain. Let u <= 1/4 be the chance that a pair falls
    (slow, fast). Two pairs do so, and 4 A/A pairs all look quiet, in u^2 (1 - 2u)^4 <= 0.55% of cases (two A/A triples:
    u^2 (1 - 3u)^2 <= 0.69%); four pairs without any pool in u^4 <= 0.4%. Fewer would break the promised 1%.
    """
    freedom = pooled_variance[1] if pooled_variance else 0
    return min(4, max(2, 5 - freedom))


def _bounds(
    log_ratios: Sequence[float], pooled_variance: Pool | None, *, tail: float
) -> tuple[float, float, float] | None:
    """(low, mean, high) of the mean log-ratio, each bound missed with probability `tail`."""
    n = len(log_ratios)
    variance, freedom = _variance(log_ratios, pooled_variance)
    if n == 0 or freedom == 0:
        return None
    mean = math.fsum(log_ratios) / n
    half = quantile(freedom, 1 - tail) * max(LEAST_SD, math.sqrt(variance)) / math.sqrt(n)
    return mean - half, mean, mean + half


def _variance(log_ratios: Sequence[float], pooled_variance: Pool | None) -> tuple[float, int]:
    """This comparison's variance and degrees of freedom, joined with the pool where they agree.

    Few processes that happen to agree must not make the pool smaller (two of the same mode always agree), so what is
    below the pool joins it only when it has more degrees of freedom itself.
    """
    from scipy.special import fdtrc

    own = pool([log_ratios])
    if own is None or pooled_variance is None or pooled_variance[1] == 0:
        return own or pooled_variance or (0.0, 0)
    (v, k), (pooled, m) = own, pooled_variance
    if float(fdtrc(k, m, v / max(pooled, LEAST_SD**2))) < FOREIGN_P:
        return own
    if v < pooled and k <= m:
        return pooled_variance
    return (k * v + m * pooled) / (k + m), k + m
