"""`cached_prefix(dataset)`: what comes before the first random draw of an item is done once; the rest runs on."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter, thread_time
from typing import Any, final

from torch.utils.data import get_worker_info

from hotlap.data.checks.checksums import Unseen
from hotlap.data.checks.forked import NoAnswer, in_a_copy
from hotlap.data.checks.inputs import Inputs
from hotlap.data.checks.opened_files import OpenedFiles, reads_unnamed_files
from hotlap.data.checks.rechecks import Rechecks
from hotlap.data.item.codec import pack, unpack
from hotlap.data.item.compare import Unsupported
from hotlap.data.item_cache.memory import limit_bytes
from hotlap.data.item_cache.placement import open_records
from hotlap.data.item_cache.records import SharedRecords
from hotlap.data.loader.fetch import fetches_whole_batches
from hotlap.data.loader.workers import Role
from hotlap.data.notes import Notes, warn
from hotlap.data.prefix_cache.pipelines import CannotSplit, HalfItem, Pipelines
from hotlap.data.wrapper import DatasetWrapper, check, put_in_place

# Items of the first look, spread over the data set: heads are cut where one of them draws.
NUM_LOOKED_AT = 6

# A kept head is computed again once in so many items, if it is time to (`Rechecks`).
RECHECK_EVERY = 64

# A head that takes less than this part of an item's time is not worth its memory.
LEAST_SHARE = 0.1

# A data set that is changed more often than this is not worth keeping heads of.
MAX_RESTARTS = 2


@dataclass(frozen=True, slots=True)
class _Cut:
    """What a first look at a data set has found."""

    heads: tuple[int, ...]
    """Steps before the first draw, of each pipeline."""
    entry_bytes: int
    head_s: float
    reads_files: bool
    """A head is read from somewhere, which Python did not open."""


@final
class _Heads:
    """The kept heads of one data set in one state. Copies of this process share them."""

    def __init__(self, dataset: Any, *, memory_bytes: int | None, role: Role | None) -> None:
        """`role`: what the script's workers are told; None without workers."""
        self._inputs = Inputs(dataset)
        self.pipelines = Pipelines(dataset)
        self.reason: str | None = None
        self.where: str | None = None
        """A sentence's end if heads are not all in memory."""
        self.bin: SharedRecords | None = None
        self._dataset = dataset
        self._process = os.getpid()
        self._rechecks = Rechecks()
        self._hits = 0
        self._differs: str | None = None
        try:
            cut = self._survey() if role is None else in_a_copy(lambda: self._survey_as(role), timeout_s=role.timeout_s)
            self.pipelines.heads = cut.heads  # a process may have found them that is no more
            self._rechecks = Rechecks(cut.head_s)
            self._inputs.look_inside(item_s=cut.head_s, num_items=len(dataset), reads_unnamed=lambda: cut.reads_files)
            self.bin, self.where = open_records(
                len(dataset), cut.entry_bytes, limit_bytes(memory_bytes), all_of_them=False
            )
        except (CannotSplit, Unsupported, NoAnswer, Unseen) as reason:
            self.reason = str(reason)

    def begin_epoch(self) -> None:
        """Look at all that items are made from."""
        if self._inputs.contents is None or self.bin is None or self.reason is not None:
            return
        try:
            self._differs = self._inputs.contents.changed(self.bin.num_kept)
        except Unseen as reason:
            self.bin.close()
            self.reason = f"no more heads are kept: {reason}"

    def changed(self) -> str | None:
        """What is no longer as it was. A worker may open files, or have them opened, before its first item."""
        if os.getpid() == self._process:
            return self._differs or self._inputs.watch.changed()
        self._process = os.getpid()
        changed = self._inputs.watch.opened()
        if changed is None and self._opens():
            self._inputs.note()
        return changed

    def hold(self) -> bool:
        """They may be used."""
        return self.bin is not None and not self.bin.closed and self.reason is None

    def half(self, place: int) -> HalfItem:
        """The item as far as its heads go: kept, or computed now.

        Raises:
            CannotSplit: it cannot be cut; the generators are where they were.
        """
        held = self.bin
        assert held is not None
        parts = held.get(place)
        if parts is not None and self._still(place, parts):
            kept: HalfItem = unpack(parts, lazily=True)
            return kept
        before = self._inputs.streams.states()
        try:
            with self._inputs.files.opened_by_items():
                half = self.pipelines.half(place)
            if parts is None and self._inputs.streams.drawn(before) is None:
                held.put(place, pack(half))
        except (CannotSplit, Unsupported):
            self._inputs.streams.restore(before)
            raise
        return half

    def _opens(self) -> bool:
        """IN A WORKER: compute a head, so that files are open; False if that changed something."""
        before = self._inputs.streams.states()
        try:
            self.pipelines.half(0)
        except CannotSplit:
            return False  # the item itself will tell
        finally:
            self._inputs.streams.restore(before)
        return self._inputs.watch.opened() is None

    def _still(self, place: int, parts: list[Any]) -> bool:
        """Compute a kept head again, if it is time to; False if it came out different."""
        self._hits += 1
        if self._hits % RECHECK_EVERY or not self._rechecks.due():
            return True
        started_s = perf_counter()
        before = self._inputs.streams.states()
        again = pack(self.pipelines.half(place))
        drawn = self._inputs.streams.drawn(before)
        self._inputs.streams.restore(before)
        self._rechecks.took(started_s)
        if drawn is None and _equal(again, parts):
            return True
        assert self.bin is not None
        self.bin.close()
        self.reason = "what comes before its first random draw came out different when it was computed again"
        warn(f"{self.reason}; kept heads were dropped")
        return False

    def _survey_as(self, role: Role) -> _Cut:
        """IN A COPY: as a worker."""
        role.play(0, self._dataset)
        self._inputs.note()
        return self._survey()

    def _survey(self) -> _Cut:
        """Find the cut, and try it on some items."""
        if not len(self._dataset):
            raise CannotSplit("it is empty")
        before = self._inputs.streams.states()
        try:
            return self._cut(len(self._dataset))
        except (CannotSplit, Unsupported):
            raise
        except Exception as error:  # of the script's code; the script meets it when it asks for that item itself
            raise CannotSplit(f"an item could not be computed ({type(error).__name__}: {error})") from error
        finally:
            self._inputs.streams.restore(before)

    def _cut(self, length: int) -> _Cut:
        if not self.pipelines.found:
            raise CannotSplit("no pipeline of transforms was found in it")
        places = sorted({number * length // NUM_LOOKED_AT for number in range(NUM_LOOKED_AT)})
        for place in places:
            self.pipelines.find_heads(place, self._inputs.streams.own)
            if place == places[0] and self._inputs.watch.opened() is None:
                self._inputs.note()  # a file opened with the very first item is no change
        files = OpenedFiles()
        with files.opened_by_items():
            tried = [self._try_item(place) for place in places]
            reads = reads_unnamed_files(lambda: self.pipelines.half(places[0])) and not files
        if median(each[0] for each in tried) < LEAST_SHARE:
            raise CannotSplit("what comes before the first random draw takes no time worth keeping")
        changed = self._inputs.watch.changed()
        if changed is not None:
            raise CannotSplit(f"computing an item changes {changed} of the data set")
        entry_bytes = sum(each[2] for each in tried) // len(tried)
        return _Cut(self.pipelines.heads, entry_bytes, median(each[1] for each in tried), reads)

    def _try_item(self, place: int) -> tuple[float, float, int]:
        """(the part of an item's time that its head takes, seconds of its head, bytes of its entry); `CannotSplit` if
        the halves do not make it."""
        before = self._inputs.streams.states()
        item, whole_s, whole_cpu_s = _timed(lambda: self._dataset[place])
        after = self._inputs.streams.states()
        self._inputs.streams.restore(before)
        half, head_s, head_cpu_s = _timed(lambda: self.pipelines.half(place))
        if self._inputs.streams.drawn(before) is not None:
            raise CannotSplit("it draws random numbers outside of its transforms")
        parts = [bytes(part) for part in pack(half)]
        again = self.pipelines.whole(unpack(parts, lazily=True))
        if self._inputs.streams.drawn(after) is not None or not _equal(pack(item), pack(again)):
            raise CannotSplit("an item comes out different when its transforms are cut in two")
        # On a busy machine an item is held up for longer than it computes; what a head waits for is no CPU time.
        return max(head_s / whole_s, head_cpu_s / max(whole_cpu_s, 1e-9)), head_s, sum(map(len, parts))


def _timed(make: Callable[[], Any]) -> tuple[Any, float, float]:
    """(what it returns, seconds, seconds of CPU time of this thread)."""
    begun_s, begun_cpu_s = perf_counter(), thread_time()
    made = make()
    return made, perf_counter() - begun_s, thread_time() - begun_cpu_s


def _equal(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(bytes(one) == bytes(other) for one, other in zip(left, right, strict=True))


@final
class PrefixDataset(DatasetWrapper):
    """What `cached_prefix` returns: the data set itself to all who look. See `cached_prefix`."""

    _hotlap_function = "cached_prefix"
    _hotlap_notes: Notes
    _hotlap_heads: _Heads | None
    _hotlap_restarts: int
    _hotlap_memory: int | None

    def __init__(self, dataset: Any, memory_bytes: int | None = None) -> None:
        self.__dict__.update(
            _hotlap_dataset=dataset, _hotlap_notes=Notes(), _hotlap_heads=None, _hotlap_restarts=0,
            _hotlap_memory=memory_bytes, _hotlap_used=False,
        )  # fmt: skip

    @property
    def note(self) -> str | None:
        """One sentence if heads are not kept, or were dropped: why."""
        heads = self._hotlap_heads
        return self._hotlap_notes.last if heads is None or heads.reason is None else heads.reason

    @property
    def num_cached(self) -> int:
        """Heads kept now."""
        heads = self._hotlap_heads
        return 0 if heads is None or heads.bin is None or heads.bin.closed else heads.bin.num_kept

    def __getitem__(self, index: Any) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Any) -> list[Any]:
        heads = self._hotlap_prepare()
        halves = ((index, self._hotlap_half(heads, index)) for index in indices)
        return [self._hotlap_dataset[index] if half is None else half[0].whole(half[1]) for index, half in halves]

    def _hotlap_half(self, heads: Any, index: Any) -> tuple[Pipelines, HalfItem] | None:
        """The item as far as the heads of these pipelines go; None if it is made as a whole.

        Arguments:
            heads: `_hotlap_prepare` for a batch, whose items are asked for one right after the other.
        """
        self.__dict__["_hotlap_used"] = True
        if heads is None or not heads.hold() or type(index) is not int or not 0 <= index < heads.bin.num_places:
            return None
        try:
            return heads.pipelines, heads.half(index)
        except (CannotSplit, Unsupported) as reason:
            self._hotlap_drop(str(reason))
            return None

    def _hotlap_begin_epoch(self) -> None:
        heads = self._hotlap_heads
        if heads is not None and get_worker_info() is None:
            heads.begin_epoch()

    def _hotlap_prepare(self, role: Role | None = None) -> Any:
        """The heads, if they may be used now. Before workers are started: `role` is what they are told."""
        heads = self._hotlap_heads
        if heads is None or (heads.reason is None and heads.changed() is not None):
            heads = self._hotlap_begin(role)
        return None if heads is None or not heads.hold() else heads

    def _hotlap_begin(self, role: Role | None) -> _Heads | None:
        before = self._hotlap_heads
        if get_worker_info() is not None:
            return None  # what this process would keep is lost with it
        if before is not None:
            self.__dict__["_hotlap_restarts"] += 1
            if self._hotlap_restarts > MAX_RESTARTS:
                self._hotlap_drop("the data set was changed again and again, so no heads are kept")
                return None
            self._hotlap_notes.say("the data set was changed: kept heads were dropped, and are computed anew")
        heads = _Heads(self._hotlap_dataset, memory_bytes=self._hotlap_memory, role=role)
        self.__dict__["_hotlap_heads"] = heads
        name = type(self._hotlap_dataset).__name__
        if heads.reason is not None:
            heads.reason = f"heads of {name} are not kept: {heads.reason}"
            self._hotlap_notes.say(heads.reason)
        elif heads.where is not None:
            self._hotlap_notes.say(f"heads of {name} {heads.where}")
        return heads

    def _hotlap_drop(self, reason: str) -> None:
        heads = self._hotlap_heads
        if heads is not None:
            heads.reason = reason
            if heads.bin is not None:
                heads.bin.close()
        self._hotlap_notes.say(reason)

    def _hotlap_settled(self) -> bool:
        heads = self._hotlap_heads
        if not self._hotlap_used or heads is None or heads.bin is None or heads.reason is not None:
            return True
        return heads.bin.num_kept >= 0.99 * heads.bin.num_places or heads.bin.crowded

    def _hotlap_idle(self) -> str | None:
        heads = self._hotlap_heads
        return self._hotlap_notes.last or "" if heads is None else heads.reason

    def _hotlap_batch(self, indices: list[int], index: Any) -> tuple[Any] | None:
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return PrefixDataset, (self._hotlap_dataset, self._hotlap_memory)


def cached_prefix(dataset: Any, *, memory_bytes: int | None = None) -> Any:
    """A data set that reads, decodes and prepares each item once, and runs its random transforms each time.

    `DataLoader(cached_prefix(ImageFolder(path, transform=Compose([Resize(256), RandomCrop(224), ToTensor()]))))`: the
    picture is kept as it is after `Resize`, and `RandomCrop` is handed a new copy of it each time: the same bytes, and
    the generators in the same states. So items are those of the data set itself, draw by draw. Crops, resizes and flips
    of a kept PIL image are done as one by the native core, with the bytes that PIL makes.

    The cut is in front of the first transform that draws from `random`, NumPy, torch or a generator that was found in
    the data set, for any of some items; a head that draws later on is not kept. Several pipelines (two views of one
    picture, one for the target) are cut each.

    Not cut is a data set without such a pipeline, one that works on what its transforms return, whose transforms are
    handed what is not plain data, and whose items differ when they are computed by halves. One kept head in 64 is
    computed again, within 2% of the time; on the first difference all are dropped.

    With worker processes the heads lie in memory that all of them share, also with those of the next epoch.

    Arguments:
        dataset: map-style, with transforms in a `Compose` or `nn.Sequential`. Not changed.
        memory_bytes: the most that heads may take in memory; None: 80% of what is free when the first item is made.
            What does not fit goes to a file without a name in the cache folder.

    Returns:
        The data set, to all who look.
    """
    if type(dataset) is PrefixDataset or sys.platform != "linux":
        return dataset
    check(PrefixDataset, dataset)
    if fetches_whole_batches(dataset) or not hasattr(type(dataset), "__len__"):
        return dataset
    return put_in_place(PrefixDataset(dataset, memory_bytes))
