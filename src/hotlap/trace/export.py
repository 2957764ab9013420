"""The device's times as the table that TraceLens writes (AMD-AGI/TraceLens, gpu_timeline.csv), to compare tools by."""

import csv
import io

import numpy as np

from hotlap.trace import spans
from hotlap.trace.reading import Reading
from hotlap.trace.table import Floats, Kind, Mask, Trace
from hotlap.trace.timeline import timeline

# Python's frames around what activation checkpointing computes again.
_RECOMPUTES = r".*torch/utils/checkpoint\.py\(\d+\): (?:recompute_fn|unpack_hook)|.*CheckpointFunctionBackward"


def gpu_timeline(one: Reading) -> str:
    """CSV: type, milliseconds, percent. Where something is recomputed both kinds stand apart, as that tool has them;
    memory that is set is left out there, as it does."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    again = recomputed(one.trace) & one.rows
    if not again.any():
        writer.writerow(("type", "time ms", "percent"))
        writer.writerows(one.timeline.rows())
        return out.getvalue()
    writer.writerow(("type", "time ms", "percent", "is_recompute"))
    counted = one.rows & ~one.trace.which(Kind.MEMSET)
    for flag, rows in ((False, counted & ~again), (True, counted & again)):
        found = timeline(one.trace, rows, one.timeline.device)
        writer.writerows((*row, flag) for row in found.rows())
    return out.getvalue()


def recomputed(trace: Trace) -> Mask:
    """Events on a device that were launched to compute activations again."""
    frames = trace.which(Kind.PYTHON, Kind.OPERATOR) & trace.named(_RECOMPUTES)
    inside = spans.union(trace.start[frames], trace.end[frames])
    called: Floats = trace.start[np.maximum(trace.launch, 0)]
    return (trace.launch >= 0) & (spans.within(inside, called, called + 1e-9) > 0)
