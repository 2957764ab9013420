"""constant-work: each step computes anew what is the same in each step.

What it says: the operators of these lines were given the same numbers in each step that was looked at, bit for bit, and
made the same of them; and for how long they compute. Parameters, and what depends on them, are never among these.
Why it is bad: what does not change can be computed once, before the loop.
Example: a graph's adjacency matrix that `forward` normalises, a mask or an encoding of positions that it builds.
Risk: what is kept takes memory; if it should change after all, the training does not see it.

Before:

    def forward(self, x, adjacency):
        degree = adjacency.sum(1)
        return adjacency / degree[:, None] @ self.linear(x)

After:

    def __init__(self, adjacency):
        self.register_buffer("mean", adjacency / adjacency.sum(1)[:, None])

    def forward(self, x):
        return self.mean @ self.linear(x)
"""

from hotlap.record import Finding, Machine, Phase, Run, Sighting, SightingKind
from hotlap.rules.advice import at_line
from hotlap.rules.step import at_sighting, finding, longer_than_seen, share_of, sightings, spent
from hotlap.units import duration

# Ours, as for host-bound: below a tenth of the step a line is rarely worth a change.
MIN_SHARE = 0.10

EXPLAINS = frozenset({"host-bound", "launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The costliest line, and the time of all."""
    seen = sightings(run, SightingKind.REPEATED)
    cost_s = sum(_cost_s(run, one) for one in seen)
    if share_of(run, cost_s) < MIN_SHARE:
        return None
    return finding(
        run,
        cost_s,
        f"Each step spends {spent(run, cost_s, ' of it')} in operators that make the same of the same numbers in each "
        f"step; {duration(_cost_s(run, seen[0]))} of that{at_sighting(seen[0])}: {seen[0].text}.",
        change=at_line(seen[0], ""),
    )


def _cost_s(run: Run, seen: Sighting) -> float:
    """At the pace of the recorded steps; a line that does nothing else whole, with the memory that it gives back."""
    phase = Phase(str(seen.detail["phase"]))
    place = phase, seen.path, seen.line
    whole_s = (line.step_s for line in run.hot_lines if (line.phase, line.path, line.line) == place)
    cost_s = longer_than_seen(run, phase) * (seen.cost_s or 0.0)
    return max(cost_s, *whole_s, 0.0) if seen.detail.get("alone") else cost_s
