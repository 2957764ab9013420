"""What this process may still take: memory, cores and disk that are free, and what its cgroup leaves of it."""

import multiprocessing
import os
import sys
import weakref
from pathlib import Path
from typing import final

from hotlap import cgroups, folders
from hotlap.errors import UserError
from hotlap.units import num_bytes

# What is left untouched: other processes, the allocator's slack, and the training itself go on growing.
SHARE_OF_FREE = 0.8

# The rest of a disk belongs to others.
SHARE_OF_DISK = 0.5

# Names a size, as `hotlap tune --memory` does for the trainings that they start.
VARIABLE = "HOTLAP_MEMORY"


def usable_cores() -> int:
    """Cores that this process may be on at once, at least 1."""
    return max(1, int(min(len(os.sched_getaffinity(0)), cgroups.cpu_quota())))


def given_bytes() -> int | None:
    """What the user lets hotlap take in this process; None where nobody said anything.

    Raises:
        UserError: what was said is no size.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    given = num_bytes(text)
    if given is None:
        raise UserError(f"{VARIABLE}={text} is not a size. Give one as in {VARIABLE}=8GB.")
    return given // _processes_here()


def _processes_here() -> int:
    """Processes of one training on this machine, which share its memory; torchrun tells them how many they are. Of
    those that a script starts itself only their number on all machines is known."""
    told = os.environ.get("LOCAL_WORLD_SIZE", "")
    if told.isdigit():
        return max(1, int(told))
    ranks = sys.modules.get("torch.distributed") if multiprocessing.parent_process() else None
    return int(ranks.get_world_size()) if ranks and ranks.is_available() and ranks.is_initialized() else 1


@final
class Allowance:
    """Memory for caches, batches made ahead and workers: what they may have together, and what each has been given.

    Given memory need not be in use yet (the pages of a cache are, once they are filled), so that asking the system
    alone would promise the same bytes twice.
    """

    def __init__(self) -> None:
        self._held: dict[int, int] = {}
        """Bytes by the id of who has them, who is still there."""
        self._whole_bytes = 0

    def left_bytes(self) -> int:
        """Bytes that may still be taken."""
        held = sum(tuple(self._held.values()))
        given, free = given_bytes(), cgroups.available_bytes()
        if given is not None:
            return max(0, min(given - held, free))
        share = int(SHARE_OF_FREE * free / _processes_here())
        return max(0, min(self._whole_bytes - held, share)) if held else share

    def take(self, owner: object, taken_bytes: int) -> None:
        """`owner` has these from now on, as long as it lives; told again, in place of what it had."""
        if not self._held:
            self._whole_bytes = self.left_bytes()
        if id(owner) not in self._held:
            weakref.finalize(owner, self._held.pop, id(owner), None).atexit = False
        self._held[id(owner)] = taken_bytes


ALLOWANCE = Allowance()
"""Of this process: memory is one for all that goes on in it."""


def limit_bytes(memory_bytes: int | None = None) -> int:
    """What one more cache, or more batches ahead, may take; `memory_bytes`: what the caller of its function gave it."""
    if memory_bytes is not None and given_bytes() is None:
        return memory_bytes
    left = ALLOWANCE.left_bytes()
    return left if memory_bytes is None else min(memory_bytes, left)


def default_folder() -> Path:
    """Where caches lie on disk: `$HOTLAP_CACHE`, or the user's cache folder."""
    own = os.environ.get("HOTLAP_CACHE")
    return Path(own) if own else folders.cache_folder() / "data"


def room_bytes(folder: Path) -> int:
    """Bytes that a cache in this folder may take, which need not be there yet; 0 if nobody can tell."""
    return int(SHARE_OF_DISK * folders.room_bytes(folder))
