"""What is wrong with a machine: `Facts -> Complaint | None`, one small function each."""

from collections.abc import Callable

from hotlap.machine.checks import build, container, gpu, memory, processor, system
from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight

__all__ = ["ALL", "Check", "complaints"]

Check = Callable[[Facts], Complaint | None]

ALL: tuple[Check, ...] = (*build.ALL, *gpu.ALL, *processor.ALL, *memory.ALL, *system.ALL, *container.ALL)

_ORDER = (Weight.BROKEN, Weight.COSTLY, Weight.MINOR)


def complaints(facts: Facts) -> tuple[Complaint, ...]:
    """Everything that is wrong, weightiest first."""
    found = [complaint for check in ALL if (complaint := check(facts)) is not None]
    return tuple(sorted(found, key=lambda complaint: _ORDER.index(complaint.weight)))
