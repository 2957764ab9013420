"""Readings of a trace, or of the ranks of one job -> a study as `hotlap measure` makes it."""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import hotlap
from hotlap import rules
from hotlap.errors import UserError
from hotlap.experiment import batches
from hotlap.levers import cards
from hotlap.record import Ceiling, Finding, Phase, Purpose, Run, State, Study, escaped
from hotlap.trace import files, ranks, table
from hotlap.trace.reading import Reading, reading

_WARNING = (
    "A profiler costs time itself, most of it on the host, more with stacks and shapes: untraced steps are shorter, "
    "and the device waits less for the host than is told here."
)

# A bound of less is not worth a line.
_LEAST = 1.01

_FREE = {
    Phase.INPUT: ("input", "no wait for a batch"),
    Phase.COMMUNICATION: ("communication", "no wait for other processes and for data on their way"),
    Phase.TRANSFER: ("transfers", "copies only beside kernels"),
    Phase.OTHER: ("host work", "the device never idles while the host does more than launch"),
    Phase.SYNC: ("sync", "no wait of the host for the device"),
    Phase.OPTIMIZER: ("optimizer", "no time in optimizer steps"),
}


def read(names: Sequence[str]) -> Study:
    """Traces by name (files, folders, tar archives): several are ranks of one job.

    Raises:
        UserError: one cannot be read, is no trace, or holds no work of a device.
    """
    with files.found(names) as paths:
        return made(names, ranked([reading(table.read(path)) for path in paths]))


def ranked(found: list[Reading]) -> list[Reading]:
    """In the order of their ranks; of their names, where not every trace tells its rank.

    Raises:
        UserError: two traces are of the same rank.
    """
    ranks = [one.trace.rank for one in found]
    if None in ranks:
        found = sorted(found, key=lambda one: [int(part) for part in re.findall(r"\d+", one.trace.title)])
        for number, one in enumerate(found):
            one.run = replace(one.run, rank=number)
        return found
    first: dict[int, Reading] = {}
    for one in found:
        if (other := first.setdefault(one.run.rank, one)) is not one:
            raise UserError(
                f"{other.trace.title} and {one.trace.title} are both of rank {one.run.rank}, and several traces are "
                "read as the ranks of one job. Give one of each rank."
            )
    return [first[rank] for rank in sorted(first)]


def made(names: Sequence[str], found: Sequence[Reading]) -> Study:
    """Of readings in the order of their ranks."""
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
        findings=tuple(_on(run.device, finding) for finding in rules.check(run)),
        ceilings=ceilings(run),
        warnings=(_WARNING,),
    )


def ceilings(run: Run) -> tuple[Ceiling, ...]:
    """What could be gained at best, each step without what the device spent on one thing: highest first; none of fewer
    than three steps. The interval covers what varies from step to step of the trace."""
    each = (batches.ceiling(run, *words, run.phase_s.get(phase) or ()) for phase, words in _FREE.items())
    found = (one for one in each if one is not None and one.speedup.mid >= _LEAST)
    return tuple(sorted(found, key=lambda one: -one.speedup.mid))


def _on(device: str, finding: Finding) -> Finding:
    """With what its tensor cores know: nobody tries levers on the card of a trace, and refuses some."""
    if not cards.is_before_ampere(device):
        return finding
    known = tuple(lever for lever in finding.try_levers if lever not in ("bf16-autocast", "tf32"))
    return replace(finding, try_levers=known)
