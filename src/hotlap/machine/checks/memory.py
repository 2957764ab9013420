"""Memory and shared memory."""

from collections.abc import Iterator

from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight
from hotlap.units import size

# Below this, a training process with torch in it and a small batch hardly fits.
_LITTLE_BYTES = 2 << 30
# Docker's default for /dev/shm is 64 MiB; batches of workers travel through it, two for each worker.
_LITTLE_SHM_BYTES = 1 << 30


def check(facts: Facts) -> Iterator[Complaint]:
    """What a training runs out of."""
    yield from _left(facts)
    yield from _shared(facts)


def _left(facts: Facts) -> Iterator[Complaint]:
    total, left, most = facts.machine.memory_bytes, facts.machine.available_bytes, facts.memory_limit_bytes
    if most is not None and most < total:
        yield Complaint(
            code="memory-limit",
            weight=Weight.COSTLY if left < _LITTLE_BYTES else Weight.MINOR,
            what=f"A cgroup limits memory to {size(most)} of {size(total)}; {size(left)} is left.",
            cost='A process that goes beyond is killed without a message ("Killed", exit code 137).',
            fix="Raise the container's limit (--memory, resources.limits.memory), or use fewer workers, smaller "
            "caches.",
        )
    elif left < _LITTLE_BYTES:
        yield Complaint(
            code="memory-short",
            weight=Weight.COSTLY,
            what=f"{size(left)} of {size(total)} memory is free.",
            cost="Training swaps, or is killed by the system.",
            fix="End what else is running, or take a smaller batch and fewer loader workers.",
        )


def _shared(facts: Facts) -> Iterator[Complaint]:
    whole = facts.shm_bytes
    if whole is not None and whole < _LITTLE_SHM_BYTES:
        yield Complaint(
            code="small-shm",
            weight=Weight.COSTLY,
            what=f"/dev/shm holds {size(whole)}.",
            cost='Loader workers hand batches over there; when it is full they die ("bus error ... insufficient '
            'shared memory").',
            fix="Start the container with --shm-size=8g or --ipc=host; in Kubernetes mount an emptyDir of medium "
            "Memory.",
        )
