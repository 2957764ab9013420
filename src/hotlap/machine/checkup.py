"""Facts + figures (measured in a child) -> a Checkup."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median

import hotlap
from hotlap.machine import in_child
from hotlap.machine.checks import complaints
from hotlap.machine.facts import gather
from hotlap.record import Checkup, Measured
from hotlap.units import percent


def checkup(*, quick: bool = False, doing: Callable[[str], None] = print) -> Checkup:
    """What this machine can do, and what is wrong with it.

    Arguments:
        quick: shorter and fewer repeats will do.
        doing: told what is being done.

    Raises:
        HotlapError: torch cannot be imported, or measuring did not end.
    """
    facts = gather()
    doing("measuring the machine")
    begun, created = time.monotonic(), datetime.now(UTC)
    measured = in_child.measured("hotlap.machine.measure", Measured, *(["quick"] if quick else []))
    return Checkup(
        machine=facts.machine,
        created=created.isoformat(timespec="seconds"),
        hotlap=hotlap.__version__,
        torch=measured.torch,
        figures=measured.figures,
        complaints=complaints(replace(facts, torch=measured.torch)),
        quick=quick,
        elapsed_s=time.monotonic() - begun,
        notes=(*measured.failures, *_noise(measured)),
    )


def _noise(found: Measured) -> tuple[str, ...]:
    """One sentence about how far the figures can be trusted."""
    if not found.figures:
        return ()
    typical = median(figure.spread for figure in found.figures)
    return (f"Repeats of a figure lie {percent(typical)} apart (half of the middle half, median of all figures).",)
