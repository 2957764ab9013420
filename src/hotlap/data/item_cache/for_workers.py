"""A cache that the script's own workers fill: looked at in copies of this process, as those are.

Nothing of the data set is run in this process. The store lies in memory that forked workers share; once it is full,
batches are gathered here in their place.
"""

import random
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

from hotlap.data.checks.forked import cannot_fork, in_a_copy
from hotlap.data.checks.inputs import Inputs
from hotlap.data.item.codec import CannotKeep
from hotlap.data.item_cache.again import Compared, Rechecks
from hotlap.data.item_cache.engine import NUM_FIRST_CHECKS, NUM_WARM_CHECKS, ItemCache
from hotlap.data.item_cache.fill import spread
from hotlap.data.item_cache.shared_memory import Progress
from hotlap.data.loader.fetch import Role

# So many kept items are computed again in a copy of this process.
NUM_COPY_CHECKS = 8

# What it takes to make such a copy, about: 10 to 30 ms with torch, more on a busy machine.
COPY_S = 0.05


def before_workers(cache: ItemCache, role: Role) -> None:
    """Worker processes are about to be forked: make the store that they share, or look whether it still holds."""
    cache.used = True
    if cache.in_doubt() and cache.given_up:
        return
    if cache.store is None:
        reason = _open(cache, role)
        if reason is not None:
            cache.give_up(f"{cache.name} is read by its own workers: {reason}")
    elif not _check(cache, role):
        return
    cache.count(cache.num_cached)  # what workers have computed since


def goes_on(cache: ItemCache, progress: Progress) -> bool:
    """True if persistent workers that were forked with this fill what is kept now, and what they share is as it was.

    Of the data set they have a copy of their own, which changes do not reach; but they read files anew, and shared
    memory.
    """
    changed = None if cache.contents is None else cache.contents.changed_for_copies()
    if changed is not None:
        progress.refuse(f"{cache.name} is read by its own workers: {changed} was changed while they lived")
    return progress is cache.progress and not cache.refused()


def still_holds(cache: ItemCache, progress: Progress, role: Role) -> bool:
    """False if no more batches may be gathered in the place of persistent workers."""
    if not goes_on(cache, progress):
        return progress.refusal is None
    assert cache.inputs is not None and cache.contents is not None  # there is a store
    try:
        changed = cache.inputs.watch.changed() or cache.contents.changed(cache.num_cached)
    except CannotKeep as reason:
        changed = str(reason)
    return changed is not None or _check(cache, role)


def _open(cache: ItemCache, role: Role) -> str | None:
    """Make the store, of items that a copy of this process computes; the reason why there is none."""
    cache.inputs = Inputs(cache.dataset)
    length = cache.inputs.watch.length
    if not length or cache.whole:
        return "it fetches whole batches, or has no length"
    why_not = cannot_fork(shares_files=True)
    if why_not is not None:
        return why_not
    # Neighbours too: items that are built in several ways often alternate, and workers cannot begin anew.
    places = sorted({*spread(length, NUM_FIRST_CHECKS), min(1, length - 1)})
    try:
        seen = in_a_copy(lambda: _look(cache, places, role), timeout_s=role.timeout_s)
    except CannotKeep as reason:
        return f"items cannot be had by their places in a copy of this process ({reason})"
    if isinstance(seen, str):
        return seen
    items, compared = seen
    cache.index_types, cache.rechecks = {int}, Rechecks(COPY_S + NUM_COPY_CHECKS * compared.item_s)
    found = cache.keep_as(compared, items, length, shared=True) and cache.warm
    if found and not _come_out_as_kept(cache, role, spread(length, NUM_WARM_CHECKS)):
        cache.leave_disk(items, length, shared=True)
    return None


def _look(cache: ItemCache, indices: Sequence[int], role: Role) -> str | tuple[list[Any], Compared]:
    """IN A COPY: these items, and what `compared` says of them; a sentence if they cannot be kept."""
    inputs = cache.inputs
    assert inputs is not None
    role.play(0, cache.dataset)
    changed = inputs.watch.changed()
    if changed is not None:
        return f"worker_init_fn changes {changed} of the data set"
    cache.item(indices[0])
    inputs.note()  # a file that is opened with the very first item is no change, nor is a generator made then
    found = [cache.again(index) for index in indices if not cache.given_up]
    items = [item[0] for item in found if item is not None]
    role.tell(1, cache.dataset)  # another worker must get the same items
    compared = str(cache.note) if cache.given_up else cache.compared([*zip(indices, items, strict=True)])
    return compared if isinstance(compared, str) else (items, compared)


def _check(cache: ItemCache, role: Role) -> bool:
    """Have some kept items computed again where the script computes them, if it is time to; False if one differs."""
    kept = np.flatnonzero(cache.present)
    if not len(kept) or not cache.rechecks.due():
        return True
    started_s = perf_counter()
    chosen = random.Random(started_s).sample(kept.tolist(), min(NUM_COPY_CHECKS, len(kept)))
    same_again = _come_out_as_kept(cache, role, chosen)
    cache.rechecks.took(started_s)
    if not same_again:
        cache.found_different()
    return same_again


def _come_out_as_kept(cache: ItemCache, role: Role, positions: Sequence[int]) -> bool:
    """True if these items come out as they are kept, or do not come out: a worker will tell."""
    store = cache.store

    def hold() -> bool:
        role.play(0, cache.dataset)
        return store is not None and all(store.holds(position, cache.item(position)) for position in positions)

    try:
        return bool(in_a_copy(hold, timeout_s=role.timeout_s))
    except CannotKeep:
        return True
