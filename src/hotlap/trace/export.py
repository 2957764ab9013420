"""The device's times as the table that TraceLens writes (AMD-AGI/TraceLens, gpu_timeline.csv), to compare tools by."""

import csv
import io

from hotlap.trace.reading import Reading
from hotlap.trace.recomputed import launched_again
from hotlap.trace.table import Kind
from hotlap.trace.timeline import timeline


def gpu_timeline(one: Reading) -> str:
    """CSV: type, milliseconds, percent. Where something is recomputed both kinds stand apart, as that tool has them;
    memory that is set is left out there, as it does."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    again = launched_again(one) & one.rows
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
