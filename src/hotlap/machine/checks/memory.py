"""Checks of memory: limits, swapping, shared memory, huge pages, the allocator."""

from hotlap.machine.facts import Facts
from hotlap.record import Complaint, Weight
from hotlap.units import percent, size

# Below this, a training process with torch in it and a small batch hardly fits.
_LITTLE_BYTES = 2 << 30
# Docker's default for /dev/shm is 64 MiB; batches of workers travel through it, two for each worker.
_LITTLE_SHM_BYTES = 1 << 30
# Pages that lie idle in swap cost nothing; much of it, while memory is short, is being used.
_SWAP_SHARE, _FREE_SHARE = 0.05, 0.10


def limit(facts: Facts) -> Complaint | None:
    """A cgroup's limit below the machine's memory."""
    most, total = facts.memory.limit_bytes, facts.machine.memory_bytes
    if most is None or most >= total:
        return None
    left = facts.machine.available_bytes
    return Complaint(
        code="memory-limit",
        weight=Weight.COSTLY if left < _LITTLE_BYTES else Weight.MINOR,
        what=f"A cgroup limits memory to {size(most)} of {size(total)}; {size(left)} is left.",
        cost='A process that goes beyond is killed without a message ("Killed", exit code 137).',
        fix="Raise the container's limit (--memory, resources.limits.memory), or use fewer workers, smaller caches.",
    )


def short(facts: Facts) -> Complaint | None:
    """Hardly any memory left, limit or not."""
    left = facts.machine.available_bytes
    if left >= _LITTLE_BYTES or limit(facts) is not None:
        return None
    return Complaint(
        code="memory-short",
        weight=Weight.COSTLY,
        what=f"{size(left)} of {size(facts.machine.memory_bytes)} memory is free.",
        cost="Training swaps, or is killed by the system.",
        fix="End what else is running, or take a smaller batch and fewer loader workers.",
    )


def swapping(facts: Facts) -> Complaint | None:
    """Swap is in use while memory is short."""
    total = facts.machine.memory_bytes
    used = facts.memory.swap_used_bytes
    if used < _SWAP_SHARE * total or facts.machine.available_bytes > _FREE_SHARE * total:
        return None
    return Complaint(
        code="swapping",
        weight=Weight.COSTLY,
        what=f"{size(used)} lies in swap, and {percent(facts.machine.available_bytes / total)} of memory is free.",
        cost="What is fetched back from disk takes a thousand times as long as from memory.",
        fix="End what else is running; a smaller data cache, batch, or number of loader workers helps too.",
    )


def shared_memory(facts: Facts) -> Complaint | None:
    """/dev/shm is small."""
    whole = facts.memory.shm_bytes
    if whole is None or whole >= _LITTLE_SHM_BYTES:
        return None
    return Complaint(
        code="small-shm",
        weight=Weight.COSTLY,
        what=f"/dev/shm holds {size(whole)}.",
        cost='Loader workers hand batches over there; when it is full they die ("bus error ... insufficient shared '
        'memory").',
        fix="Start the container with --shm-size=8g or --ipc=host; in Kubernetes mount an emptyDir of medium Memory.",
    )


def huge_pages(facts: Facts) -> Complaint | None:
    """Transparent huge pages are switched off."""
    if facts.machine.huge_pages != "never":
        return None
    return Complaint(
        code="no-huge-pages",
        weight=Weight.MINOR,
        what="Transparent huge pages are switched off.",
        cost="Large tensors lie in pages of 4 KiB. Huge pages made small CPU trainings up to a third faster on a busy "
        "machine, and no faster on a quiet one (docs/design.md).",
        fix="echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled; hotlap tune then tries them.",
    )


def allocator(facts: Facts) -> Complaint | None:
    """glibc's malloc as it comes, which gives large blocks back to the system at once."""
    tuned = "glibc.malloc" in facts.environment.get("GLIBC_TUNABLES", "")
    # On a GPU tensors come from torch's own allocator; on the CPU every operator asks malloc.
    if facts.allocator != "glibc" or tuned or facts.machine.gpus:
        return None
    return Complaint(
        code="plain-malloc",
        weight=Weight.MINOR,
        what="Tensors on the CPU come from glibc's malloc as it comes.",
        cost="Blocks above 32 MiB go back to the system when freed, and each new one is cleared page by page.",
        fix="Try the lever huge-pages of hotlap tune (GLIBC_TUNABLES=glibc.malloc.hugetlb=1), or LD_PRELOAD of "
        "jemalloc or tcmalloc; measure, as it depends on the model.",
    )


ALL = (limit, short, swapping, shared_memory, huge_pages, allocator)
