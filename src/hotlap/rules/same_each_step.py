"""same-each-step: operators on data alone are given the same, and make the same of it, in each step.

What it says: the time a step of operators that take part in no gradient and came out equal, bit by bit, in all steps
that were looked at, with what they were given; and the line with most of it. It is looked for on the CPU.
Why it is bad: what never changes can be made once, in front of the loop or in a module's `__init__`.
Example: a graph of nearest neighbours that each layer makes of positions that never move; a mask, or the normalisation
of a matrix, made in each forward pass.
Risk: what changes later (a schedule, a graph that is made anew each epoch) must be made anew then.

Before:

    def forward(self, x):
        distance = torch.cdist(self.positions, self.positions)
        return self.linear(torch.softmax(-distance, 1) @ x)

After:

    def __init__(self, positions):
        ...
        self.register_buffer("near", torch.softmax(-torch.cdist(positions, positions), 1))

    def forward(self, x):
        return self.linear(self.near @ x)
"""

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, finding, in_vain

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Operators of forward passes and of the script's own code."""
    found = in_vain(run, SightingKind.UNCHANGED)
    if found is None:
        return None
    worst, cost_s = found
    return finding(
        run,
        cost_s,
        f"Operators take {run.with_share(cost_s)} of each step for what they made the same in all "
        f"{worst.detail['steps']} steps that were looked at, of the same data; most of it"
        f"{at_sighting(worst)}: {worst.text}. Made once, in front of the loop or in the module's __init__, it "
        "takes none of it.",
        change=of_line(worst),
    )
