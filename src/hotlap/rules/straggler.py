"""straggler: all processes wait for the slowest.

What it says: one process computes so much longer in each step than the others, which wait for it.
Why it is bad: in data-parallel training the slowest process sets the pace of all; the others' hardware idles. It hides:
every process shows the same step time, because waiting happens inside of the exchange.
Example: one process that shares its GPU or its cores with another job, that logs for all, or that is given the longest
samples.
Risk: none for the numbers.

Before:

    if rank == 0:
        writer.add_histogram("weights", model.module.weight, step)

After:

    if rank == 0 and step % 100 == 0:
        writer.add_histogram("weights", model.module.weight, step)
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from hotlap.record import Finding, Machine, Phase, RankFacts, Run
from hotlap.rules.step import at_lines, finding
from hotlap.units import duration

# TraceML's limits are 10% (a note) and 20% (critical) of the step.
MIN_SHARE = 0.10

# With one process there is nobody to compare with.
_FEWEST = 2

# Steps that differ by less are one.
_SAME = 0.05

EXPLAINS = frozenset({"communication-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Compute of the slowest rank beyond the median of the others, communication left out on all."""
    if len(run.ranks) < _FEWEST:
        return None
    slowest = max(run.ranks, key=lambda rank: rank.compute_s)
    others = [rank for rank in run.ranks if rank is not slowest]
    others_s = median(rank.compute_s for rank in others)
    cost_s = slowest.compute_s - others_s
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    why = "It is slower, or has more to compute."
    if run.cpu is not None and run.cpu.disturbed:
        why = "Other programs used the cores meanwhile, which may be all."
    return finding(
        run,
        cost_s,
        f"Rank {slowest.rank} on {slowest.host} takes {duration(slowest.compute_s)} {_of_step(run, slowest)} "
        f"without communication, the others {duration(others_s)}: all wait "
        f"{run.with_share(cost_s, ' of each step')}{_where(slowest, others)}. {why}",
    )


def in_common(run: Run) -> Run:
    """The same run, its phases without what this process alone has in them.

    What a process computes beyond the others is `straggler`'s, and so is what it has beyond the slowest, for which it
    waits. Findings about a phase are worth what is left: gone everywhere, all are sooner by that.
    """
    mine = next((rank for rank in run.ranks if rank.rank == run.rank), None)
    if mine is None or len(run.ranks) < _FEWEST:
        return run
    slowest = max(run.ranks, key=lambda rank: rank.compute_s)
    others = [rank for rank in run.ranks if rank is not mine] if mine is slowest else [slowest]
    apart_s = abs(mine.compute_s - median(rank.compute_s for rank in others))
    own_s = {phase: max(0.0, seconds) for phase, seconds in _beyond(mine, others).items()}
    # Slow in one phase and sooner in another, it keeps nobody waiting: both are for all to shorten.
    part = min(1.0, apart_s / sum(own_s.values())) if any(own_s.values()) else 0.0
    left: dict[Phase, float] = {phase: 1.0 - part * own_s[phase] / (mine.phase_s[phase] or 1.0) for phase in own_s}
    phase_s = {
        phase: tuple(seconds * left.get(phase, 1.0) for seconds in steps) if steps is not None else None
        for phase, steps in run.phase_s.items()
    }
    return replace(run, phase_s=phase_s)


def _beyond(one: RankFacts, others: Sequence[RankFacts]) -> dict[Phase, float]:
    """Seconds of each phase but communication beyond the others' median."""
    return {
        phase: seconds - median(rank.phase_s.get(phase) or 0.0 for rank in others)
        for phase, seconds in one.phase_s.items()
        if seconds is not None and phase is not Phase.COMMUNICATION
    }


def _of_step(run: Run, slowest: RankFacts) -> str:
    """A rank's own record may begin later than the step that all share."""
    alone = abs(slowest.step_s - run.mean_step_s()) <= _SAME * slowest.step_s
    return "a step" if alone else f"of the {duration(slowest.step_s)} that all share"


def _where(slowest: RankFacts, others: Sequence[RankFacts]) -> str:
    """The phase that is longest beyond the others', and its line."""
    longer_s = _beyond(slowest, others)
    phase = max(longer_s, key=lambda phase: longer_s[phase], default=None)
    if phase is None or longer_s[phase] <= 0:
        return ""
    lines = (line for line in slowest.hot_lines if line.phase is phase)
    return f"; {duration(longer_s[phase])} longer in {phase.value}{at_lines(lines, longer_s[phase])}"
