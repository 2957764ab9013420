"""attention-over-batch: attention runs over the samples of a batch instead of over each sample's sequence.

What it says: a module with `batch_first=False` (the default) is given input whose first dimension is the batch; what
the model spends is spent on something that was not meant.
Why it is bad: samples of one batch see each other, positions of one sample do not: the model learns something else,
and its result depends on who else is in the batch. No error is raised, the shapes fit.
Example: `nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 16), 6)` called with `(batch, sequence, features)`.
Risk: what is trained afterwards is another model, the one that was meant: compare its losses anew.

Before:

    layer = nn.TransformerEncoderLayer(512, 16)
    out = nn.TransformerEncoder(layer, 6)(x)  # x: (batch, sequence, features)

After:

    layer = nn.TransformerEncoderLayer(512, 16, batch_first=True)
    out = nn.TransformerEncoder(layer, 6)(x)
"""

from hotlap.record import Finding, Machine, Phase, Run, SightingKind
from hotlap.rules.step import at_sighting, finding, sightings

# No threshold: it is an error at any size. As its cost counts the model's time, which goes into the wrong thing.

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Modules that were seen to take the batch for the sequence."""
    seen = next(iter(sightings(run, SightingKind.ATTENTION_OVER_BATCH)), None)
    if seen is None or not run.step_s:
        return None
    cost_s = (run.mean_phase_s(Phase.FORWARD) or 0.0) + (run.mean_phase_s(Phase.BACKWARD) or 0.0)
    return finding(
        run,
        cost_s,
        f"{seen.what}{at_sighting(seen)} has batch_first=False and takes the batch of {seen.detail.get('length')} for "
        f"the sequence: the {run.with_share(cost_s)} that each step spends in the model "
        "compute attention among samples.",
    )
