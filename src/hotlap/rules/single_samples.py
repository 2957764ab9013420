"""single-samples: the model is called for one sample after the other.

What it says: what the calls of operators and the Python between them cost in a step whose forward passes are given one
sample each, and no result of each other; the line; and, as the bound, all that so many passes take beyond the first.
Why it is bad: a call costs the same for one sample as for many, and small products leave most of a core idle.
Example: a loss that is added up sample by sample; gradients that are accumulated over batches of one.
Risk: sums are made in another order, so the last bits differ; batch normalisation sees the whole batch.

Before:

    losses = []
    for sample, label in zip(x, y):
        out = model(sample.unsqueeze(0))
        losses.append(loss_fn(out, label.unsqueeze(0)))
    loss = torch.stack(losses).mean()

After:

    loss = loss_fn(model(x), y)
"""

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules import host_bound, launch_bound
from hotlap.rules.advice import of_line
from hotlap.rules.step import at_sighting, chosen, finding, launch_s, model_levers, phase_s, sightings

# As of calls alone (launch-bound): where passes compute more than that, a batch is hardly faster than its samples.
MIN_SHARE = 0.40

# Ours: two views of one sample, or a discriminator's real and fake one, are no loop.
MIN_CALLS = 8

EXPLAINS = frozenset({"host-bound", "launch-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Forward passes that were seen to be given one row."""
    seen = sightings(run, SightingKind.SINGLE)
    number = sum(one.per_step for one in seen)
    calls_s = launch_bound.calls_s(run) if run.on_cpu else launch_s(run)
    if number < MIN_CALLS or calls_s is None:
        return None
    beyond_first = 1 - 1 / number
    cost_s = beyond_first * (calls_s + sum(host_bound.spent_s(run)))
    if run.share_of(cost_s) < MIN_SHARE:
        return None
    worst, loader = max(seen, key=lambda one: one.per_step), run.main_loader()
    # Of samples that come as batches of their own, loading and copying is done once as well.
    kept = {Phase.OPTIMIZER} if loader is not None and loader.batch_size == 1 else _NOT_OF_THE_MODEL
    kept_s = sum(phase_s(run, phase) or 0.0 for phase in kept)
    return finding(
        run,
        cost_s,
        f"{worst.what} is called for one sample at a time, {number:,.0f} times in each step{at_sighting(worst)}: "
        f"{worst.text}. Calls of operators and the Python between them take {run.with_share(cost_s, ' of it')} beyond "
        "what one call with all samples (a batch, or torch.func.vmap) takes, where none needs what another one made.",
        levers=chosen(model_levers(run)),
        change=of_line(worst),
        at_most_s=beyond_first * max(0.0, run.mean_step_s() - kept_s),
    )


_NOT_OF_THE_MODEL = frozenset({Phase.INPUT, Phase.TRANSFER, Phase.OPTIMIZER})
