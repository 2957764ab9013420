"""`late(dataset)`: the steps that turn a picture's bytes into numbers are done once for a batch, not for each item."""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.data import default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from hotlap.data.checks.forked import NoAnswer, in_a_copy
from hotlap.data.checks.random_state import Streams
from hotlap.data.checks.watch import Watch, num_items
from hotlap.data.item.codec import flatten_batch
from hotlap.data.item_cache.columns import same_batches
from hotlap.data.item_cache.fill import spread
from hotlap.data.loader.fetch import (
    Batch,
    Role,
    fetch,
    fetches_whole_batches,
    role_of,
    torch_collates,
    why_no_copies,
)
from hotlap.data.prefix_cache.cached_prefix import HeadCache, PrefixDataset
from hotlap.data.prefix_cache.pipelines import Call, CannotSplit, HalfItem, Pipeline, Pipelines, Placeholder, built
from hotlap.data.transforms.normalize import DeferredSteps, bytes_of, converts, deferred_steps
from hotlap.data.wrapper import DatasetWrapper, check, put_in_place, unwrapped

# Items of the first look, spread over the data set.
NUM_LOOKED_AT = 4


class Leaf(NamedTuple):
    """One tensor of a batch that is bytes still."""

    number: int
    """Among all leaves of the batch."""
    tail: DeferredSteps
    shape: tuple[int, ...]
    """Of one item."""
    channels_last: bool


@final
@dataclass(frozen=True, slots=True)
class LateBatch:
    """A collated batch with bytes in some places. Workers send it, and it can be pinned, as any other."""

    value: Any
    leaves: Sequence[Leaf]

    def pin_memory(self) -> "LateBatch":
        """As torch's loader calls it."""
        return LateBatch(pin_memory(self.value), self.leaves)  # type: ignore[no-untyped-call]


def finish(data: Any) -> Any:
    """The batch as the script knows it, numbers in place of bytes; what is no `LateBatch` as it is."""
    if type(data) is not LateBatch:
        return data
    parts, structure = flatten_batch(data.value)
    for leaf in data.leaves:
        parts[leaf.number] = _numbers(parts[leaf.number], leaf)
    return tree_unflatten(parts, structure)


def _numbers(bytes_: torch.Tensor, leaf: Leaf) -> torch.Tensor:
    pinned = torch.cuda.is_available() and bytes_.is_pinned()
    if leaf.channels_last:
        num_items, rows, columns, channels = bytes_.shape
        shape = (num_items, channels, rows, columns)
        out = torch.empty(shape, dtype=torch.float32, device="cpu", pin_memory=pinned)
    else:
        out = torch.empty_like(bytes_, dtype=torch.float32, pin_memory=pinned)
    return leaf.tail.apply(bytes_, out, channels_last=leaf.channels_last)


class ByteBatches:
    """Makes batches of bytes of one data set, as long as its pipelines end as they did."""

    def __init__(self, dataset: Any) -> None:
        """`CannotSplit` says why it cannot be cut."""
        self._dataset = dataset
        self._prefix: PrefixDataset | None = dataset if type(dataset) is PrefixDataset else None
        self._pipelines = Pipelines(unwrapped(dataset), alone=converts)
        found = [(pipeline, deferred_steps(pipeline.steps())) for pipeline in self._pipelines.found]
        if self._prefix is not None and any(tail is None for _, tail in found):
            raise CannotSplit("not all of its pipelines end so, and what precedes their random transforms is kept")
        self._pipelines.found = [pipeline for pipeline, tail in found if tail is not None]
        self._deferred: list[DeferredSteps] = [tail for _, tail in found if tail is not None]
        if not self._deferred:
            raise CannotSplit("none of its transforms ends with ToTensor, or with a conversion to 32-bit numbers")
        for pipeline, tail in zip(self._pipelines.found, self._deferred, strict=True):
            pipeline.num_head = tail.num_head
        self._streams = Streams(Watch(unwrapped(dataset)).streams)

    def is_current(self) -> bool:
        """True if the pipelines end as they did, and numbers have 32 bits unless it is said."""
        ends = [deferred_steps(pipeline.steps()) for pipeline in self._pipelines.found]
        return ends == self._deferred and torch.get_default_dtype() is torch.float32

    def batch(self, indices: Any) -> Any:
        """A `LateBatch`, or what `default_collate` makes of these items where they do not go together so.

        Raises:
            CannotSplit: the data set works on what its transforms return; the generators are where they were.
        """
        before = self._streams.states()
        try:
            halves = self._halves(indices)
        except CannotSplit:
            self._streams.restore(before)
            raise
        late = self._late(halves)
        return default_collate([self._pipelines.whole(half) for half in halves]) if late is None else late

    def why_not(self, role: Role) -> str | None:
        """IN A COPY: try some items, as the process that makes them; a reason if what comes out is not the same to the
        last bit."""
        role.play(0, self._dataset)
        places = spread(len(self._dataset), NUM_LOOKED_AT)
        before = self._streams.states()
        expected = default_collate([self._dataset[place] for place in places])
        after = self._streams.states()
        self._streams.restore(before)
        halves = self._halves(places)
        if self._streams.drawn(after) is not None:
            return "it draws other random numbers when its transforms are cut in two"
        late = self._late(halves)
        if late is None:
            return "its last transforms are not given pictures of bytes, one for an item and all of one size"
        if not same_batches(finish(late), expected):
            return "a batch comes out different when the last transforms are done late"
        return None

    def _halves(self, indices: Any) -> list[HalfItem]:
        """The items as far as their bytes."""
        heads = None if self._prefix is None else self._prefix._hotlap_cache
        ready = heads is not None and heads.prepare()
        return [self._half(heads if ready else None, index) for index in indices]

    def _half(self, heads: HeadCache | None, index: Any) -> HalfItem:
        kept = None if heads is None else heads.half(index)
        if kept is None:
            return self._pipelines.half(index)
        # From where its kept part ends, call by call in their order: what draws in between draws as it would.
        pipelines, half = kept
        return HalfItem(half.skeleton, [self._further(pipelines.found[call.pipeline], call) for call in half.calls])

    def _further(self, kept: Pipeline, call: Call) -> Call:
        mine = next((k for k, other in enumerate(self._pipelines.found) if other.owner is kept.owner), None)
        if mine is None or kept.num_head > self._deferred[mine].num_head:
            raise CannotSplit("what is kept of its items goes further than their bytes")
        return Call(mine, kept.run(call.inputs, kept.num_head, self._deferred[mine].num_head), call.several)

    def _late(self, halves: list[HalfItem]) -> LateBatch | None:
        """None if these items are not all of one kind and size."""
        pictures = sys.modules.get("hotlap.data.item.pictures")
        if pictures is not None:
            given = (call.inputs for half in halves for call in half.calls)
            pictures.render(itertools.chain.from_iterable(given), num_threads=torch.get_num_threads())
        cut = [self._cut(half) for half in halves]
        known = [each for each in cut if each is not None]
        if len(known) < len(cut) or len({leaves for _, leaves in known}) != 1:
            return None
        try:
            return LateBatch(default_collate([item for item, _ in known]), known[0][1])
        except (TypeError, RuntimeError, KeyError):
            return None  # the items themselves will tell

    def _cut(self, half: HalfItem) -> tuple[Any, tuple[Leaf, ...]] | None:
        """(the item with bytes in the places of its numbers, these places: the same for all items of a batch); None if
        they are none."""
        tails = [self._deferred[call.pipeline] for call in half.calls]
        known = []
        for call, tail in zip(half.calls, tails, strict=True):
            made = None if call.several else bytes_of(call.inputs[0], tail.takes)
            if made is None:
                return None
            known.append(made)
        leaves = tuple(
            Leaf(number, tails[mark.call], tuple(known[mark.call][0].shape), known[mark.call][1])
            for number, mark in enumerate(tree_flatten(half.skeleton)[0])
            if type(mark) is Placeholder
        )
        return (built(half.skeleton, [tensor for tensor, _ in known]), leaves) if leaves else None


@final
class LateDataset(DatasetWrapper):
    """What `late` returns: the data set itself to all who look. See `late`."""

    _hotlap_function = "late"
    _hotlap_around = ("cached_prefix",)
    _hotlap_batches: ByteBatches | None
    _hotlap_refused: bool
    """It cannot be cut: it is not tried again."""

    def __init__(self, dataset: Any) -> None:
        self.__dict__.update(_hotlap_dataset=dataset, _hotlap_batches=None, _hotlap_refused=False)

    def _hotlap_prepare(self, loader: Any) -> bool:
        """True if the batches of this loader are made late; False, and a note, if they are not."""
        reason = _refuses(loader)
        if reason is None and not self._hotlap_refused and self._hotlap_ready() is None:
            role = role_of(loader)
            try:
                batches = ByteBatches(self._hotlap_dataset)
                reason = in_a_copy(partial(batches.why_not, role), timeout_s=role.timeout_s)
            except (CannotSplit, NoAnswer) as error:
                reason = str(error)
            except (OSError, AssertionError) as error:  # a process that must not have children, or cannot
                reason = f"no process could be started to try some items ({error})"
            self.__dict__.update(_hotlap_batches=None if reason else batches, _hotlap_refused=reason is not None)
        if reason is not None:
            self._hotlap_refuse(reason)
        return reason is None and self._hotlap_ready() is not None

    def _hotlap_ready(self) -> ByteBatches | None:
        batches = self._hotlap_batches
        return batches if batches is not None and batches.is_current() else None

    def _hotlap_fetch(self, indices: Any, *, whole: bool) -> Any:
        batches = self._hotlap_ready() if whole and torch_collates() else None
        if batches is not None:
            try:
                return Batch(batches.batch(indices))
            except CannotSplit as reason:
                items = fetch(self._hotlap_dataset, indices)  # an error of the script's own comes from here
                self.__dict__.update(_hotlap_batches=None, _hotlap_refused=True)
                self._hotlap_refuse(str(reason))
                return items
        return fetch(self._hotlap_dataset, indices)

    def _hotlap_refuse(self, reason: str) -> None:
        self._hotlap_say(f"transforms of {type(self._hotlap_dataset).__name__} are done item by item: {reason}")


def _refuses(loader: Any) -> str | None:
    if not loader._auto_collation:
        return "the loader makes no batches"
    if loader.collate_fn is not default_collate:
        return "a collate function of the script's own puts the items together"
    return why_no_copies(loader) if loader.num_workers else None


def late(dataset: Any) -> Any:
    """A data set whose pictures stay bytes until they are a batch, and become numbers in the training process.

    `DataLoader(late(ImageFolder(path, transform=Compose([RandomCrop(224), ToTensor(), Normalize(mean, std)]))))`:
    `RandomCrop` runs for each item as ever. `ToTensor` and `Normalize`, which make each number from one byte and
    constants, are done for the batch: without a call of Python for each item, and workers send a quarter of the bytes.
    The batch has the same numbers in the same places.

    Four items are made both ways before the first batch; where they differ, `note` says so. Which pipelines are served
    is told in docs/data.md. Around `cached_prefix` both are done: what precedes the first random transform is kept,
    random transforms run, and the rest is done late.

    Arguments:
        dataset: map-style. Not changed.

    Returns:
        The data set, to all who look.
    """
    if type(dataset) is LateDataset:
        return dataset
    check(LateDataset, dataset)
    if fetches_whole_batches(unwrapped(dataset)) or not num_items(dataset):
        return dataset
    return put_in_place(LateDataset(dataset))
