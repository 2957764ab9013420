"""broadcast-target: a column of predictions meets a row of targets, and each of them meets each of the others.

What it says: the line, the two lengths, and the time a step of what is computed with tensors of that shape. It is
looked for on the CPU, where one of the two requires gradients and the other does not.
Why it is bad: 1,024 predictions make a million errors in place of 1,024; and the loss pulls each prediction to the mean
of all targets, which is mostly a mistake.
Example: a model that ends in `nn.Linear(64, 1)` gives (1024, 1), labels are (1024), and the loss is written by hand.
Risk: the loss is another one, and so is what is learnt.

Before:

    error = model(x) - y
    loss = (error ** 2).mean()

After:

    error = model(x).squeeze(1) - y
    loss = (error ** 2).mean()
"""

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, cost_of, finding, share_of, sightings, spent

# Ours, as of other work in vain: what takes less is no matter of speed.
MIN_SHARE = 0.05

EXPLAINS = frozenset({"memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Operators on tensors of the shape that was made."""
    seen = sightings(run, SightingKind.BROADCAST)
    cost_s = cost_of(seen)
    if share_of(run, cost_s) < MIN_SHARE:
        return None
    size = int(seen[0].detail.get("size") or 0)
    return finding(
        run,
        cost_s,
        f"A column of {size:,} and a row of {size:,} are broadcast{at_sighting(seen[0])}: {seen[0].text}. What has "
        f"that shape takes {spent(run, cost_s)} of each step. Mostly that is a mistake: one of the two lacks a "
        f"squeeze(1), and each prediction is compared with all {size:,} targets.",
        change=of_line(seen[0]),
    )
