"""Functions of `hotlap.data` around the data sets of loaders: each of them is a lever."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hotlap.data.item_cache.memory import default_folder, room_bytes
from hotlap.errors import UserError
from hotlap.levers import loaders
from hotlap.levers.lever import Lever, Numerics, Scope
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import Edit, WrapArgument
from hotlap.units import size

# Items that are made sooner than this altogether are made again by the next run: the key and the checks of a cache on
# disk take some tenths of it (MNIST, 190 MB: 0.23 s).
_LEAST_ON_DISK_S = 1.0

# What a slow disk reads, that of a machine in a cloud: items that are made faster than that are not read from one.
_DISK_BYTES_PER_S = 200e6


class DataWrapper(Lever, ABC):
    """A function of `hotlap.data` around the data set of each loader that it serves."""

    scope = Scope.LOADER
    numerics = Numerics.EXACT
    no_line = loaders.NO_LINE
    across_ranks = True

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """What the loaders read, then what there is to gain."""
        if not run.loaders:
            return loaders.NO_LOADER
        refused = loaders.refused_by_all(run, lambda one: self._leaves(run, one) or self.no_room(run, one, machine))
        return refused or self.gains_nothing(run)

    @abstractmethod
    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """Why a map-style data set stays as it is; None where it is served."""

    def no_room(self, run: Run, loader: LoaderFacts, machine: Machine) -> str | None:
        """Why it is not worth trying for a loader that it would serve."""
        return None

    def gains_nothing(self, run: Run) -> str | None:
        """A sentence where batches cost next to nothing."""
        return loaders.hardly_waits(run)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best: whichever is more."""
        return loaders.saves_at_most_s(run, ceilings)

    def arguments(self, loader: LoaderFacts) -> str:
        """What the function is given beside the data set, as code."""
        return ""

    def edits(self, run: Run) -> Sequence[Edit]:
        """`function(...)` around each of them."""
        served = [loader for loader in run.loaders if self._leaves(run, loader) is None]
        found: dict[tuple[str, int, int], Edit] = {}
        # One line may make several loaders: what one of them is to be given stands for all.
        for loader in sorted(served, key=self.arguments, reverse=True):
            for site in loaders.sites(run, loader):
                edit = WrapArgument(
                    site=site,
                    position=0,
                    keyword="dataset",
                    function=self.function,
                    arguments=self.arguments(loader),
                    imports=f"from hotlap.data import {self.function}",
                )
                found.setdefault((site.path, site.line, site.col), edit)
        return tuple(found.values())

    def _leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        if loader.num_items is None:
            return f"{loader.dataset} is an iterable data set: it has no items to look up by number."
        return self.leaves(run, loader) or _hides_dataset(run, loader)


class BatchedFetch(DataWrapper):
    """Wraps each `TensorDataset`, or `Subset` of one, in `hotlap.data.batched`.

    What: a batch is one `index_select` per tensor in place of a Python loop over the items and a stack of the rows.
    Same samples, same order, same random draws.
    Why: fetching tensors in memory one by one is most of a small model's step (pytorch/pytorch#106704, #4959).
    When it hurts: nowhere that is known; nothing is copied or kept, and what the script changes in its tensors is in
    the next batch. Classes derived from these are left alone, for their items may be something else.
    When data change: they are in the next batch, which is gathered from the script's own tensors.
    """

    function = "batched"

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves rows of tensors, and some of these."""
        rows_of = loader.subset_of or loader.dataset
        if rows_of == "TensorDataset":
            return None
        return f"Items of {rows_of} are made in Python, one by one; there is nothing to gather them from."


class KeptItems(DataWrapper, ABC):
    """Keeps whole items."""

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves items that were not seen to change, and cost something where the script puts them together."""
        if loader.deterministic is False:
            seen = loader.why_not or "two computations differed"
            return f"Items of {loader.dataset} are not always the same: {seen}."
        items_s = None if loader.item_s is None else loader.item_s * (loader.batch_size or 1)
        if loader.default_collate or items_s is None or items_s >= loaders.MIN_SHARE * run.mean_step_s():
            return None
        return f"Items of {loader.dataset} cost next to nothing; putting them together does, and is done each time."

    def no_room(self, run: Run, loader: LoaderFacts, machine: Machine) -> str | None:
        """What is kept must last, and fit: once for each of several processes that train together."""
        if loader.dataset_anew:
            return _made_anew(loader)
        if loader.item_bytes is None or loader.num_items is None:
            return None
        needed = run.world_size * loader.item_bytes * loader.num_items
        in_a_file = room_bytes(default_folder()) if _pays_on_disk(loader) else 0
        if needed <= max(loaders.memory_bytes(machine), in_a_file):
            return None
        times = f" in each of {run.world_size} processes" if run.world_size > 1 else ""
        on_disk = ", and more than the disk has room for" if _pays_on_disk(loader) else ""
        return (
            f"The {loader.num_items} items of {loader.dataset}{times} would take {size(needed)}, more than the "
            f"{size(loaders.memory_bytes(machine))} of memory that may be used{on_disk}."
        )

    def arguments(self, loader: LoaderFacts) -> str:
        """Whether the next run shall find the items."""
        return "disk=True" if _pays_on_disk(loader) else ""


class CachedDataset(KeptItems):
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
    When data change: before each epoch all that items are made from is compared, to the last byte, with the time and
    size of the files that they are read from; a change in the middle of an epoch may be seen with the next one. What
    cannot be compared, or takes longer than half of what its items take, is left alone. Not seen: what is put back
    within one epoch, the environment, installed libraries, other machines, files whose time and size stay the same.
    """

    function = "cached"


def _pays_on_disk(loader: LoaderFacts) -> bool:
    """The next run would find its items on disk sooner than it makes them, and that is worth a file."""
    if loader.item_s is None or loader.item_bytes is None or loader.num_items is None:
        return False
    slower = loader.item_s > loader.item_bytes / _DISK_BYTES_PER_S
    return slower and loader.item_s * loader.num_items >= _LEAST_ON_DISK_S


class DeviceResident(KeptItems):
    """Wraps map-style data sets in `hotlap.data.resident`.

    What: each item is computed once and kept, as by `cached-dataset`; after some batches all of them are copied to the
    device that the script moves its batches to, if they take no more than half of what is free there. Then a batch is
    gathered on the device, where `.to(device)` gives it: the same bytes, in the same order. What travels is the order
    of an epoch.
    Why: a copy for each batch is what remains once items are kept, and a small data set fits on any GPU; a
    training that makes two large requests an epoch instead of two small ones a step waits for none of them.
    When it hurts: memory of the device is taken from larger batches and models; batches that the script works on before
    it moves them come from the CPU as ever; data sets with random augmentation cannot be kept.
    When data change: as for cached-dataset, which looks before each epoch; items that were dropped there are dropped on
    the device.
    """

    function = "resident"

    def refuses(self, run: Run, machine: Machine) -> str | None:
        """Is there a GPU, can the items be kept, and do batches cost anything?"""
        if run.loaders and run.device == "cpu":
            return "The model runs on the CPU: its batches lie where they are needed."
        return super().refuses(run, machine)

    def gains_nothing(self, run: Run) -> str | None:
        """Of batches and their copies."""
        shares = [run.share(Phase.TRANSFER), run.share(Phase.INPUT)]
        share = None if None in shares else sum(each or 0.0 for each in shares)
        return loaders.nothing_to_gain("Batches and their copies take", share)

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch and for the copy of it."""
        return loaders.saves_at_most_s(run, ceilings) + (run.mean_phase_s(Phase.TRANSFER) or 0.0)


class CachedPrefix(DataWrapper):
    """Wraps data sets with random transforms in `hotlap.data.cached_prefix`.

    What: reading, decoding, and the transforms in front of the first random one are done once for each item; the others
    run on, each time, with a copy of what they would be handed and the draws that they would make. Where the data set
    draws in no pipeline of transforms but in its own `__getitem__`, its statements in front of the first draw are.
    Why: with random augmentation no item can be kept, yet decoding a picture and making it smaller often takes most of
    its time (tf.data's guide puts `cache` in front of the random part for this reason; pytorch/pytorch#26957).
    When it hurts: decoded pictures take memory (ten times their files), and beyond it the disk must be faster than the
    decoder. A data set that counts, logs or changes things as it is read does so less often. Data sets that cannot be
    cut without changing an item are noticed, and left alone.
    When data change: as for cached-dataset; heads are dropped where a setting of a random transform differs, too, and
    after three such epochs none are kept.
    """

    function = "cached_prefix"

    def leaves(self, run: Run, loader: LoaderFacts) -> str | None:
        """It serves items that draw random numbers, of a data set that lasts."""
        if loader.dataset_anew:
            return _made_anew(loader)
        if loader.deterministic is True:
            return f"Items of {loader.dataset} are always the same, so they can be kept whole (cached-dataset)."
        if loader.deterministic is False and "draws" not in (loader.why_not or "draws"):
            return f"Items of {loader.dataset} depend on hidden state ({loader.why_not})."
        return None


def _made_anew(loader: LoaderFacts) -> str:
    """Why nothing can be kept of a data set that lives for an epoch."""
    return (
        f"The script makes {loader.dataset} anew for a later epoch, and what is kept goes with the old one: make it "
        "once, before the loop over epochs."
    )


def _hides_dataset(run: Run, loader: LoaderFacts) -> str | None:
    """Where a call that makes this loader does not show what it reads."""
    try:
        made = loaders.calls_of(run, loader)
    except UserError:  # the source is not what it was: whoever edits it says so
        return None
    line = next((call.lineno for script, call in made if loaders.dataset_of(script, call) is None), None)
    if line is None:
        return None
    return f"The data set that the loader is given in line {line} cannot be seen there: write it out."
