"""What is wrong with a machine: `Facts -> Iterator[Complaint]`, one file a part of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from hotlap.machine.checks import gpu, memory, processor, torch_build
from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight

__all__ = ["ALL", "complaints"]

ALL: tuple[Callable[[Facts], Iterator[Complaint]], ...] = (
    torch_build.check,
    gpu.check,
    processor.check,
    memory.check,
)


def complaints(facts: Facts) -> tuple[Complaint, ...]:
    """Everything that is wrong, weightiest first; what several devices have in common is said once, of the first."""
    found: dict[str, Complaint] = {}
    for one in (one for check in ALL for one in check(facts)):
        first = found.get(one.code)
        found[one.code] = replace(first, about=f"{first.about}, {one.about}") if first else one
    return tuple(sorted(found.values(), key=lambda one: list(Weight).index(one.weight)))
