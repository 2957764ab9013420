"""wasted-forward: a forward pass records gradients that nobody asks for.

What it says: this part of each step passes in forward passes whose result never reaches a backward pass although
everything for one was kept: a result that is not needed, or a validation (a teacher, a target) without `no_grad`. All
of it is saved only where the pass is left out, because nobody needs its result or the training's own pass has it;
`no_grad` saves what recording takes, which may be next to nothing, and the memory. Of a validation between steps it
is the time of all of it.
Why it is bad: the pass itself may be for nothing; at any rate keeping all activations costs memory and time.
Example: `model(x)` called a second time for a metric; a validation loop that forgot `with torch.no_grad():`.
Risk: where gradients are needed after all, `no_grad` ends learning: `hotlap check` sees that.

Before:

    for x, y in validation:
        right += (model(x).argmax(1) == y).sum()

After:

    with torch.no_grad():
        for x, y in validation:
            right += (model(x).argmax(1) == y).sum()
"""

from hotlap.record import CallSite, Finding, Machine, Run, Sighting, SightingKind
from hotlap.rules.advice import of_line, without_graph
from hotlap.rules.change import Change, readable
from hotlap.rules.step import MIN_IN_VAIN, at_sighting, cost_of, finding, sightings, validation_s
from hotlap.units import duration, percent

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Forward passes that were followed until no gradient could come any more."""
    seen = sightings(run, SightingKind.WASTED_FORWARD)
    cost_s = cost_of(seen)
    # A validation's time is in no step: the share is of the steps and what lies between them.
    whole_s = run.mean_step_s() + validation_s(run)
    if whole_s <= 0 or cost_s < MIN_IN_VAIN * whole_s:
        return None
    worst = seen[0]
    validating = bool(worst.detail.get("evaluation"))
    what = "whose result no gradient ever reaches, take"
    needed = "nobody needs the result, or the pass that is trained on has it"
    if validating:  # where it goes, its batches and metrics go with it
        cost_s = validation_s(run) or cost_s
        what, needed = "of a validation have gradients on; it takes", "validation does"
    # As seen on a graph network of 6.99 ms a pass: under `no_grad` 100 steps, imports included, took 5.0 s, as before.
    return finding(
        run,
        cost_s,
        f"Forward passes {what} {duration(cost_s)} a step ({percent(min(1.0, cost_s / whole_s))}): "
        f"{worst.what}{at_sighting(worst)}. "
        f"Of that `no_grad` saves what recording for gradients takes; all of it goes only where {needed}.",
        change=_without_graph(run, worst),
        all_s=whole_s if validating else None,
    )


def _without_graph(run: Run, seen: Sighting) -> Change | None:
    """The call alone under `no_grad`; the line alone where passes are made there that somebody uses as well."""
    script = next((script for script in readable(run) if script.path == seen.path), None)
    end_line, col, end_col = (int(seen.detail.get(name) or 0) for name in ("end_line", "col", "end_col"))
    if script is None or not end_line:
        return of_line(seen)
    site = CallSite(
        calls="no_grad", path=script.path, sha256=script.sha256, line=seen.line or 0, end_line=end_line, col=col,
        end_col=end_col,
    )  # fmt: skip
    call = script.at(site)
    return (without_graph(script, call) if call is not None else None) or of_line(seen)
