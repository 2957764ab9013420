"""padding: batches are padded far beyond their longest item.

What it says: the shape that the model is given, the length of a typical batch's longest item, and about what a step
takes for columns that are padding in all rows of their batch. Integers and masks of a dozen steps are looked at.
Why it is bad: the model computes all of them, and the loss or a mask leaves them out. Batches of items of like length
(sorted within a few dozen batches) need less still. A model that takes one length only (a linear layer over a flattened
sequence) can do with a smaller fixed one.
Example: `padding="max_length"`, or a collate function that fills up to the longest item there could ever be.
Risk: what does not mask its padding (a bidirectional LSTM, a mean over positions) has another result with less of it.

Before:

    def collate(items):
        x = torch.zeros(len(items), MAX_LEN, dtype=torch.long)
        for row, item in zip(x, items):
            row[: len(item)] = item
        return x

After:

    def collate(items):
        return pad_sequence(items, batch_first=True)  # to the longest of the batch
"""

from hotlap.record import Finding, Machine, Phase, Run, Sighting, SightingKind
from hotlap.rules.advice import of_line
from hotlap.rules.step import MIN_IN_VAIN, at_sighting, finding, launch_s, phase_s, sightings
from hotlap.units import percent

EXPLAINS = frozenset({"launch-bound", "memory-bound"})


def check(run: Run, machine: Machine | None = None) -> Finding | None:
    """Of forward and backward passes the part of columns; what a device waits for launches stays. Packed sequences are
    computed without their padding."""
    seen = sightings(run, SightingKind.PADDING)
    if run.operators is not None and any("pack_padded" in one.name for one in run.operators.operators):
        return None
    model_s = sum(phase_s(run, phase) or 0.0 for phase in (Phase.FORWARD, Phase.BACKWARD)) - (launch_s(run) or 0.0)
    cost_s = model_s * sum(map(_share, seen))
    if not seen or run.share_of(cost_s) < MIN_IN_VAIN:
        return None
    worst = max(seen, key=_share)
    length, needed = (int(worst.detail.get(name) or 0) for name in ("length", "needed"))
    trade = " Compiled code and CUDA graphs want few shapes: there it takes a few lengths, each used often."
    return finding(
        run,
        cost_s,
        f"{worst.what}{at_sighting(worst)} is given {worst.detail['shape']}, and the longest item of a batch needs "
        f"{needed} of {length} columns (median of {worst.detail['batches']}): {percent(1 - needed / length)} is "
        f"padding in all rows, for which a step takes about {run.with_share(cost_s)}. Pad to the longest of each "
        f"batch, in the loader's collate_fn.{trade if run.compiled else ''}",
        change=of_line(worst),
    )


def _share(seen: Sighting) -> float:
    """Of the seconds of forward passes."""
    return float(seen.detail.get("share") or 0.0)
