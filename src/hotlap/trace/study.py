"""Readings of a trace, or of the ranks of one job -> a study as `hotlap measure` makes it."""

import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime

import hotlap
from hotlap import rules
from hotlap.record import Purpose, State, Study, escaped
from hotlap.trace import files, ranks, table
from hotlap.trace.ceilings import ceilings
from hotlap.trace.reading import Reading, reading

_WARNING = (
    "A profiler costs time itself, most of it on the host, more with stacks and shapes: untraced steps are shorter, "
    "and the device waits less for the host than is told here."
)


def read(names: Sequence[str]) -> tuple[Study, tuple[Reading, ...]]:
    """Traces by name (files, folders, tar archives): several are ranks of one job.

    Raises:
        UserError: one cannot be read, is no trace, or holds no work of a device.
    """
    found = [reading(table.read(file)) for file in files.find(list(names))]
    found.sort(key=lambda one: (one.trace.rank is None, one.trace.rank or 0))
    return _study(names, found), tuple(found)


def shown(study: Study, readings: Sequence[Reading]) -> Reading:
    """The one whose steps and phases stand in the study: the rank that the others wait for."""
    return next(one for one in readings if one.run.rank == study.baseline[0].rank)


def _study(names: Sequence[str], found: Sequence[Reading]) -> Study:
    run = ranks.joined(found)
    digest = hashlib.blake2b("\0".join(one.trace.title for one in found).encode(errors="replace"), digest_size=12)
    return Study(
        command=tuple(escaped(name) for name in names),
        cwd=escaped(os.getcwd()),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        key=digest.hexdigest(),
        hotlap=hotlap.__version__,
        purpose=Purpose.MEASURE,
        state=State.COMPLETE,
        baseline=(run,),
        findings=rules.check(run),
        ceilings=ceilings(run),
        warnings=(_WARNING,),
    )
