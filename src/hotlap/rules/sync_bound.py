"""sync-bound: the host waits for the device in the middle of its work.

What it says: this part of each step is lost because a call waits until the device has finished, and the device then
waits for the host's next orders.
Why it is bad: host and device should work at the same time; each such call makes them take turns.
Example: `loss_sum += loss.item()` after each batch on a GPU.
Risk: none for the numbers; a value is printed later, and a NaN noticed later.

Before:

    total += loss.item()

After:

    total += loss.detach()  # total.item() once, at the end of the epoch
"""

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, cost_of, finding, idle_s, sightings

# Ours, as for copies: 3% would be worth a note, from a tenth on there is more than 1.11x to gain.
MIN_SHARE = 0.10

EXPLAINS = frozenset({"launch-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Waiting, as far as the device idled in that step: waiting for a busy device costs nothing by itself. What a copy
    to the device is waited for, transfer-bound tells."""
    if run.on_cpu:
        return None
    copies = {(one.path, one.line) for one in sightings(run, SightingKind.BLOCKING_COPY) if one.path}
    seen = [one for one in sightings(run, SightingKind.SYNC) if (one.path, one.line) not in copies]
    waited_s = max(cost_of(seen), run.mean_phase_s(Phase.SYNC) or 0.0)
    idle = idle_s(run)
    cost_s = waited_s if idle is None else min(waited_s, idle)
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    worst = next(iter(seen), None)
    where = "" if worst is None else f", most of it at {worst.what}{at_sighting(worst)}"
    # A sum of it can stay on the device, where nobody waits.
    summed = worst if worst is not None and "+=" in worst.text and ".item()" in worst.text else None
    return finding(
        run,
        cost_s,
        f"Each step loses {run.with_share(cost_s, ' of it')} where the host waits for the device{where}.",
        change=of_line(summed, summed.text.replace(".item()", ".detach()")) if summed else None,
    )
