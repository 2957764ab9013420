"""accumulation-syncs: gradients are averaged over processes several times before one update.

What it says: so much of each step passes in averaging gradients to which the next backward pass adds more.
Why it is bad: an average of sums is a sum of averages: one exchange, after the last of these passes, gives the same.
Example: a loop over four micro-batches under DistributedDataParallel that calls `loss.backward()` in each.
Risk: rounding; what reads gradients between the passes (clipping of each) sees those of its own process.

Before:

    for micro, batch in enumerate(batches):
        loss = model(batch).mean() / len(batches)
        loss.backward()
    optimizer.step()

After:

    for micro, batch in enumerate(batches):
        is_last = micro == len(batches) - 1
        with nullcontext() if is_last else model.no_sync():
            loss = model(batch).mean() / len(batches)
            loss.backward()
    optimizer.step()
"""

from hotlap.record import Finding, Machine, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, cost_of, finding, share_of, sightings, spent

# TraceML notes exposed communication from 6% of the step on.
MIN_SHARE = 0.06

EXPLAINS = frozenset({"communication-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Passes that were followed by another one of the same model before any update."""
    seen = sightings(run, SightingKind.ACCUMULATION_SYNC)
    cost_s = cost_of(seen)
    if not seen or share_of(run, cost_s) < MIN_SHARE:
        return None
    worst, number = seen[0], sum(one.per_step for one in seen)
    after = (
        "with contextlib.nullcontext() if is_last else model.no_sync():\n"
        f"    ...  # the forward pass must stand within as well\n    {worst.text}"
    )
    return finding(
        run,
        cost_s,
        f"{number:.0f} backward passes of each step average gradients over {run.world_size} processes and are followed "
        f"by another one before the update{at_sighting(worst)}: at most "
        f"{spent(run, cost_s, ' of each step')} is to be had.",
        levers=("no-sync",),
        change=of_line(worst, after),
    )
