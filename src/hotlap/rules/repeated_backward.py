"""repeated-backward: the same forward pass is gone through backward once for each loss.

What it says: the line that goes backward several times in a step over one forward pass, keeping its graph, how often,
and what all passes but the first take: about what one pass over the sum of the losses saves.
Why it is bad: gradients of a sum are the sum of gradients, so each further pass computes those of all shared layers
again, to add them up.
Example: a network with a head for each of six tasks, whose losses are gone through one by one.
Risk: gradients are added up in another order, so the last bits differ.

Before:

    for loss in losses:
        loss.backward(retain_graph=True)

After:

    sum(losses).backward()
"""

from hotlap.record import CallSite, Finding, Machine, Phase, Run
from hotlap.rules.change import file_name
from hotlap.rules.step import MIN_IN_VAIN, finding, phase_s

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """The line with most of it."""
    found = [one for one in run.call_sites if one.calls == "backward" and one.detail.get("again")]
    worst = max(found, key=_part, default=None)
    backward_s = phase_s(run, Phase.BACKWARD)
    if worst is None or backward_s is None or run.share_of(backward_s * _part(worst)) < MIN_IN_VAIN:
        return None
    cost_s, again = backward_s * _part(worst), float(worst.detail["again"] or 0)
    times = "once" if again == 1.0 else f"{again:.3g} times"
    return finding(
        run,
        cost_s,
        f"Line {worst.line} of {file_name(worst.path)} goes backward over what an earlier pass went over "
        f"(`retain_graph=True`), {times} a step: that takes about "
        f"{run.with_share(cost_s)} of each step, and one pass over the sum of the losses gives the same gradients.",
    )


def _part(site: CallSite) -> float:
    """Of all backward passes, those of this line over a graph that was gone through before."""
    return float(site.detail["again_part"] or 0.0)
