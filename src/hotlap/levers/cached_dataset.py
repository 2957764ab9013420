"""cached-dataset: items are computed once, and batches are gathered from memory."""

from collections.abc import Sequence

from hotlap.data.item_cache.memory import default_folder, room_bytes
from hotlap.levers.loaders import DataWrapper, made_anew, memory_bytes, wrapping_edits
from hotlap.record import LoaderFacts, Machine, Run
from hotlap.source import Edit
from hotlap.units import size

# Items that are made sooner than this altogether are made again by the next run: the key and the checks of a cache on
# disk take some tenths of it (MNIST, 190 MB: 0.23 s).
LEAST_ON_DISK_S = 1.0

# What a slow disk reads, that of a machine in a cloud: items that are made faster than that are not read from one.
DISK_BYTES_PER_S = 200e6


class CachedDataset(DataWrapper):
    """Wraps map-style data sets in `hotlap.data.cached`.

    What: each item is computed once (where that is safe, in parallel) and kept in contiguous arrays; then a batch is
    one gather per tensor instead of a Python loop over the items and a stack. Same samples, same order, same random
    draws. Worker processes of the script are needed for the first epoch at most. Where making all items takes more than
    a second, and longer than a slow disk reads them, it is written `cached(..., disk=True)`: they are kept in
    `$HOTLAP_CACHE` or `~/.cache/hotlap/data`, and the next run begins with them; without the argument no
    file is left.
    Why: reading, decoding and collating item by item is most of a small model's step: 5.5 days became 24 hours in
    pytorch/pytorch#26957; even tensors in memory are slow when they are fetched one by one (pytorch/pytorch#106704,
    #4959).
    When it hurts: random augmentation and other items that change must be computed each time (they are noticed, and
    the true items handed out); the first epoch is a little slower; each of several processes that train together keeps
    items of its own; a data set that counts, logs or mutates things as it is read does so less often.
    Before each epoch all that items are made from is compared, to the last byte, with the time and size of the files
    that they are read from; a change in the middle of an epoch may be seen with the next one. What cannot be compared,
    or takes longer than half of what its items take, is left alone. Not seen: what is changed and put back within one
    epoch, environment variables, state of installed libraries and of other machines, files whose time and size stay the
    same, and files added to folders that no item lists.
    """

    function = "cached"

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves items that were not seen to change."""
        if loader.deterministic is not False:
            return None
        return f"Items of {loader.dataset} are not always the same: {loader.why_not or 'two computations differed'}."

    def no_room(self, run: Run, loader: LoaderFacts, machine: Machine) -> str | None:
        """What is kept must last, and fit: once for each of several processes that train together."""
        if loader.dataset_anew:
            return made_anew(loader)
        if loader.item_bytes is None or loader.num_items is None:
            return None
        needed = run.world_size * loader.item_bytes * loader.num_items
        in_a_file = room_bytes(default_folder()) if pays_on_disk(loader) else 0
        if needed <= max(memory_bytes(machine), in_a_file):
            return None
        times = f" in each of {run.world_size} processes" if run.world_size > 1 else ""
        on_disk = ", and more than the disk has room for" if pays_on_disk(loader) else ""
        return (
            f"The {loader.num_items} items of {loader.dataset}{times} would take {size(needed)}, more than the "
            f"{size(memory_bytes(machine))} of memory that may be used{on_disk}."
        )

    def edits(self, run: Run) -> Sequence[Edit]:
        """`cached(...)` around the data set of each loader that is served."""
        again = [loader for loader in self.served(run) if pays_on_disk(loader)]
        rest = [loader for loader in self.served(run) if loader not in again]
        return (*wrapping_edits(run, again, "cached", arguments="disk=True"), *wrapping_edits(run, rest, "cached"))


def pays_on_disk(loader: LoaderFacts) -> bool:
    """The next run would find its items on disk sooner than it makes them, and that is worth a file."""
    if loader.item_s is None or loader.item_bytes is None or loader.num_items is None:
        return False
    slower = loader.item_s > loader.item_bytes / DISK_BYTES_PER_S
    return slower and loader.item_s * loader.num_items >= LEAST_ON_DISK_S
