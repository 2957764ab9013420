"""`cached_prefix(dataset)`: what comes before the first random draw of an item is done once; the rest runs on."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, final

from torch.utils.data import get_worker_info

from hotlap.data.checks.forked import cannot_fork, in_a_copy
from hotlap.data.checks.inputs import Inputs
from hotlap.data.checks.random_state import Streams
from hotlap.data.item.codec import CannotKeep, holds_views, pack, same, unpack
from hotlap.data.item_cache.cached import CacheWrapper
from hotlap.data.item_cache.engine import ItemCache
from hotlap.data.item_cache.fill import spread
from hotlap.data.item_cache.for_workers import before_workers
from hotlap.data.item_cache.store import Store
from hotlap.data.loader.fetch import Batch, Role, fetches_whole_batches, torch_collates
from hotlap.data.prefix_cache.deferred import Deferred
from hotlap.data.prefix_cache.item_code import item_codes
from hotlap.data.prefix_cache.pipelines import FinishedItem, HalfItem, Pipelines, collated
from hotlap.data.wrapper import check, put_in_place

# Items of the first look, spread over the data set: heads are cut where one of them draws.
NUM_LOOKED_AT = 6

_IN_THIS_PROCESS = Role()

Cut = tuple[int, tuple[int, ...], int]
"""(which of the ways to cut; steps before the first draw, of each pipeline; bytes of an item's heads)."""


@final
class HeadCache(ItemCache):
    """The items of a data set as far as their heads go. When it changes, it is cut anew."""

    may_draw: ClassVar[bool] = True
    pipelines: Pipelines | None = None
    """Cut; None before that."""
    _entry_bytes = 0
    _in_turn = False
    """A head has drawn, so each is made when its item is."""

    @property
    def name(self) -> str:
        """Of what is kept."""
        return f"the prefix of {super().name}"

    def prepare(self, indices: Sequence[Any] = (), role: Role = _IN_THIS_PROCESS) -> bool:
        """True if heads may be used for the next batch, of these items. `role`: before workers are started, what they
        are told."""
        self.used = True
        if self.num_asked >= len(self.present) > 0:
            self.begin_epoch()  # a script that goes through the items without a loader
        self.in_doubt([index for index in indices if type(index) is int])
        if self.pipelines is None and not self.given_up:
            if get_worker_info() is not None:
                return False  # what this process would keep is lost with it
            self._cut(role)
        if role.num_workers and not self.given_up:
            before_workers(self, role)
        return not self.given_up

    def heads(self, indices: Sequence[Any]) -> dict[int, HalfItem]:
        """Of these items, those that are not kept yet, made at once: to look at generators and data set for each takes
        as long as a small picture. Behind `prepare`. Empty where they must be made in turn."""
        if self._in_turn or self.store is None:
            return {}
        numbers = dict.fromkeys(index for index in indices if type(index) is int and self.position(index) is not None)
        missing = [number for number in numbers if not self.present[number]]
        if len(missing) < 2:
            return {}
        try:
            made = self.compute(missing)
        except Exception:  # which one it is, and behind which draws, will be seen
            Streams().restore(self.before)
            return {}
        if Streams().drawn(self.before) is None:
            return dict(zip(missing, made, strict=True))
        self._in_turn = True
        Streams().restore(self.before)
        return {}

    def half(self, index: Any) -> tuple[Pipelines, HalfItem] | None:
        """The item as far as the heads of these pipelines go; None if it is made as a whole.

        Asked for each item of a batch, behind `prepare`.
        """
        pipelines, store = self.pipelines, self.store
        if pipelines is None or type(index) is not int or self.position(index) is None:
            return None
        if store is not None and self.present[index] and self._may_be_served([index]):
            return pipelines, store.take([index])[0]
        try:
            dropped = self.given_up or self.pipelines is None  # just now, as it was changed
            return None if dropped else (pipelines, self.compute([index], single=True))
        except CannotKeep as reason:
            Streams().restore(self.before)
            self.give_up(f"{self.name} is not kept: {reason}")
            return None

    def item(self, index: Any) -> HalfItem:
        """As far as the heads go.

        Raises:
            CannotKeep: it cannot be cut.
        """
        assert self.pipelines is not None  # it was prepared
        return self.pipelines.half(index)

    def _make_store(self, items: list[Any], length: int, *, shared: bool) -> Store:
        return self._records(items, length, halves=True, entry_bytes=self._entry_bytes)

    def _forget(self) -> None:
        super()._forget()
        self.pipelines = None

    def _cut(self, role: Role) -> None:
        self.inputs = Inputs(self.dataset)
        ways = [Pipelines(self.dataset), *item_codes(self.dataset)]
        in_copy = role.num_workers > 0 or cannot_fork(waits=True) is None
        survey = partial(self._survey, ways, role, in_copy=in_copy)
        try:
            cut = in_a_copy(survey, timeout_s=role.timeout_s) if in_copy else survey()
        except CannotKeep as reason:
            self.give_up(f"{self.name} is not kept: {reason}")
        else:
            way, heads, self._entry_bytes = cut  # a process may have found them that is no more
            self.pipelines = ways[way]
            self.pipelines.heads = heads
            self._before_first = in_copy

    def _survey(self, ways: Sequence[Pipelines], role: Role, *, in_copy: bool) -> Cut:
        """IN A COPY where there can be one, so that no transform counts, or draws from what nobody sees: find the first
        cut that stands a trial on some items; `role`: as a worker."""
        if in_copy:
            role.play(0, self.dataset)
            self._note()
        assert self.inputs is not None
        if not len(self.dataset):
            raise CannotKeep("it is empty")
        reasons = list[CannotKeep]()
        before = self.inputs.streams.states()
        for number, pipelines in enumerate(ways):
            try:
                return number, *self._tried(pipelines, self.inputs)
            except CannotKeep as reason:
                reasons.append(reason)
            except Exception as error:  # of the script's code; the script meets it when it asks for that item itself
                raise CannotKeep(f"an item could not be computed ({type(error).__name__}: {error})") from error
            finally:
                self.inputs.streams.restore(before)
        raise reasons[0] if ways[0].found else reasons[-1]

    def _tried(self, pipelines: Pipelines, inputs: Inputs) -> tuple[tuple[int, ...], int]:
        if not pipelines.found:
            raise CannotKeep("no pipeline of transforms was found in it")
        places = spread(len(self.dataset), NUM_LOOKED_AT)
        for place in places:
            pipelines.find_heads(place, inputs.streams.own)
            if place == places[0] and inputs.watch.opened() is None:
                inputs.note()  # a file opened with the very first item is no change
        with inputs.files.opened_by_items():
            tried = [self._try_item(place, pipelines, inputs.streams) for place in places]
        changed = inputs.watch.changed()
        if changed is not None:
            raise CannotKeep(f"computing an item changes {changed} of the data set")
        return pipelines.heads, sum(tried) // len(tried)

    def _try_item(self, place: int, pipelines: Pipelines, streams: Streams) -> int:
        """Bytes of its entry; `CannotKeep` if the halves do not make it."""
        before = streams.states()
        item = self.dataset[place]
        after = streams.states()
        streams.restore(before)
        half = pipelines.half(place)
        if streams.drawn(before) is not None:
            raise CannotKeep("it draws random numbers outside of its transforms")
        if holds_views(half):
            raise CannotKeep("values that its random steps are handed share memory")
        parts = [bytes(part) for part in pack(half)]
        again = pipelines.finished(unpack(parts, lazily=True)).item()
        if streams.drawn(after) is not None or not same(item, again):
            raise CannotKeep("an item comes out different when its transforms are cut in two")
        return sum(map(len, parts))


@final
class PrefixDataset(CacheWrapper):
    """What `cached_prefix` returns: the data set itself to all who look. See `cached_prefix`."""

    _hotlap_function = "cached_prefix"
    _hotlap_cache: HeadCache
    _hotlap_checked: dict[Any, bool]
    """See `batch_of`."""

    def __init__(self, dataset: Any, memory_bytes: int | None = None) -> None:
        self.__dict__.update(
            _hotlap_dataset=dataset, _hotlap_cache=HeadCache(dataset, memory_bytes=memory_bytes), _hotlap_checked={}
        )

    def __getitem__(self, index: Any) -> Any:
        return self.__getitems__([index])[0]

    def _hotlap_fetch(self, indices: Any, *, whole: bool) -> Any:
        kept = self._hotlap_cache
        ready, defers = kept.prepare(indices), whole and torch_collates()
        pipelines, heads = kept.pipelines, kept.heads(indices) if ready else {}
        items = list[FinishedItem]()
        for index in indices:
            half = heads.pop(index, None) if type(index) is int else None
            if half is not None and pipelines is not None:
                items.append(pipelines.finished(half, defers=defers))
            elif ready and (found := kept.half(index)) is not None:
                items.append(found[0].finished(found[1], defers=defers))
            else:
                items.append(FinishedItem(self._hotlap_dataset[index], []))
        if any(type(result) is Deferred for one in items for result in one.results):
            with suppress(Exception):  # the items themselves will tell
                return Batch(collated(items, self._hotlap_checked))
        return [one.item() for one in items]

    def __reduce__(self) -> tuple[Any, ...]:
        return PrefixDataset, (self._hotlap_dataset, self._hotlap_cache.memory_bytes)


def cached_prefix(dataset: Any, *, memory_bytes: int | None = None) -> Any:
    """A data set that reads, decodes and prepares each item once, and runs its random transforms each time.

    `DataLoader(cached_prefix(ImageFolder(path, transform=Compose([Resize(256), RandomCrop(224), ToTensor()]))))`: the
    picture is kept as it is after `Resize`, and `RandomCrop` is handed a new copy of it each time: the same bytes, and
    the generators in the same states. So items are those of the data set itself, draw by draw. The cut is in front of
    the first transform that draws, for any of some items; where that does not do, in front of the first statement that
    draws in a `__getitem__`. What is not cut, and what is checked as training goes on, is told in docs/data.md.

    Arguments:
        dataset: map-style; its transforms in a `Compose` or `nn.Sequential`, or draws in `__getitem__`. Not changed.
        memory_bytes: the most that heads may take; None: 80% of what is free when the first item is made. What does
            not fit is not kept.

    Returns:
        The data set, to all who look.
    """
    if type(dataset) is PrefixDataset:
        return dataset
    check(PrefixDataset, dataset)
    if fetches_whole_batches(dataset) or not hasattr(type(dataset), "__len__"):
        return dataset
    return put_in_place(PrefixDataset(dataset, memory_bytes))
