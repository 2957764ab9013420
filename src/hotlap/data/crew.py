"""Workers that stay from epoch to epoch: torch's own processes and queues, told each epoch what new ones would be told.

`Epoch` is what `iter(loader)` gives: it draws from the script's generators and asks the sampler exactly as torch's
iterator does. `Crew` is the processes, and outlives it.
"""

import copy
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, final

import torch
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _BaseDataLoaderIter, _MultiProcessingDataLoaderIter

from hotlap.data import late_batches
from hotlap.data.changes import Watch
from hotlap.data.contents import Contents
from hotlap.data.determinism import Streams, fetch
from hotlap.data.lateness import LateDataset, fetched
from hotlap.data.memory import ALLOWANCE, limit_bytes
from hotlap.data.sending import sent, why_any_order, why_no_copies
from hotlap.data.stand_in import behind
from hotlap.data.tree_memory import own_bytes
from hotlap.data.workers import Role
from hotlap.units import size

# When new workers had to be made so many times because something had changed, torch's own way is as good.
MAX_RESTARTS = 3


class _Order(NamedTuple):
    """What a worker is asked for."""

    epoch: int
    base_seed: int
    index: Any
    """As the sampler gave it."""


class _Look(NamedTuple):
    """Asks a worker whether the data set is what it was."""


class _Seen(NamedTuple):
    changed: str | None


@final
class _Guard:
    """Tells whether a data set and the script's functions are what they were."""

    def __init__(self, *parts: Any) -> None:
        self._watches = [Watch(part) for part in parts if part is not None]
        self._streams = Streams(tuple(stream for watch in self._watches for stream in watch.streams))
        self._own = self._own_states()
        self._contents = [Contents(watch.root, beside=watch, all_of_it=False) for watch in self._watches]

    def changed(self) -> str | None:
        """What is no longer as it was."""
        looks = [*(watch.changed for watch in self._watches), *(contents.changed for contents in self._contents)]
        changed = next((changed for look in looks if (changed := look()) is not None), None)
        return "a random generator" if changed is None and self._own_states() != self._own else changed

    def _own_states(self) -> list[object]:
        return [stream.fingerprint(stream.read()) for stream in self._streams.own]


@final
class _Member:
    """IN A WORKER: the data set and the collate function, behind what must happen before the first item of an epoch."""

    def __init__(self, loader: Any, dataset: Any) -> None:
        self._dataset, self._collate = dataset, loader.collate_fn
        self._num_workers, self._init = loader.num_workers, loader.worker_init_fn
        self._epoch = 0
        self._guard: _Guard | None = None
        self._before: Watch | None = None
        self._changed: str | None = None

    def __getitems__(self, order: Any) -> Any:
        """For a loader that makes batches."""
        if isinstance(order, _Look):
            return self._look()
        self._begin(order)
        items = fetch(self._dataset, order.index)
        self._note()
        return items

    def __getitem__(self, order: Any) -> Any:
        """For one that does not."""
        if isinstance(order, _Look):
            return self._look()
        self._begin(order)
        item = self._dataset[order.index]
        self._note()
        return item

    def collate(self, items: Any) -> Any:
        """As the script has it."""
        return items if isinstance(items, _Seen) else self._collate(items)

    def _begin(self, order: _Order) -> None:
        if order.epoch == self._epoch:
            return
        self._epoch = order.epoch
        if self._guard is None:
            self._before = Watch(behind(self._dataset))
            self._own = [stream.fingerprint(stream.read()) for stream in self._before.streams]
        info = get_worker_info()
        assert info is not None  # this is a worker
        Role(self._num_workers, order.base_seed, self._init, self._collate).play(info.id, self._dataset)

    def _note(self) -> None:
        """After the first batch: from here on nothing may change; until here a file may have been opened."""
        if self._guard is None and self._before is not None:
            self._changed = self._before.opened()
            if self._own != [stream.fingerprint(stream.read()) for stream in self._before.streams]:
                self._changed = "a random generator"
            self._guard, self._before = _Guard(behind(self._dataset), self._collate), None

    def _look(self) -> _Seen:
        return _Seen(self._changed or (None if self._guard is None else self._guard.changed()))


@final
class Crew(_MultiProcessingDataLoaderIter):
    """The processes of one loader."""

    def __init__(self, loader: Any, dataset: Any) -> None:
        # Before the processes are: they are copies of what is guarded here.
        self._hotlap_guard = _Guard(behind(dataset), loader.collate_fn, loader.worker_init_fn)
        self._hotlap_settings = _settings(loader)
        self._hotlap_sent = loader.__dict__.get("_hotlap_sent")
        self._hotlap_epoch = 0
        self._hotlap_holder: Callable[[], Any] = lambda: None
        member = _Member(loader, dataset)
        plain = copy.copy(loader)
        plain.__dict__.update(
            dataset=member, collate_fn=member.collate, worker_init_fn=None, persistent_workers=True, _iterator=None,
            batch_sampler=None if loader.batch_sampler is None else (), sampler=(), generator=torch.Generator(),
        )  # fmt: skip
        self._hotlap_loader = plain
        super().__init__(plain)

    def free(self) -> bool:
        """True unless somebody still draws from it."""
        holder = self._hotlap_holder()
        return holder is None or holder.over

    def unfit(self, loader: Any) -> str | None:
        """Why these processes are not what new ones would be, as far as it can be seen from here."""
        if self._shutdown or not all(worker.is_alive() for worker in self._workers):
            return "a worker ended"
        if _settings(loader) != self._hotlap_settings:
            return "a setting of the loader was changed"
        if loader.__dict__.get("_hotlap_sent") != self._hotlap_sent:
            return "what new workers would be sent was changed"
        changed = self._hotlap_guard.changed()
        return self._too_large(loader.dataset) if changed is None else f"{changed} of the data set was changed"

    def _too_large(self, stand_in: Any) -> str | None:
        """Workers grow: each page with a Python object that they look at becomes their own (pytorch/pytorch#13246)."""
        taken = own_bytes(worker.pid for worker in self._workers)
        limit = limit_bytes(stand_in._hotlap_memory, owner=stand_in, in_use_bytes=taken)
        if taken > limit:
            return f"they took {size(taken)} of memory, and {size(limit)} may be used"
        ALLOWANCE.take(stand_in, taken)
        return None

    def take(self) -> Any:
        """The next batch."""
        return self._next_data()  # type: ignore[no-untyped-call]

    def look(self) -> str | None:
        """What has changed in the workers themselves; what was still asked for from an epoch cut short is dropped."""
        self._index_sampler: Any = [_Look()] * self._num_workers
        self._reset(self._hotlap_loader)
        answers = [self.take() for _ in range(self._num_workers)]
        changed = [answer.changed for answer in answers if answer.changed is not None]
        return f"a worker changed {changed[0]} of its data set" if changed else None

    def begin(self, sampler_iter: Iterator[Any], base_seed: int, holder: Any) -> None:
        """Ask for the first batches of an epoch, as many as torch would."""
        self._hotlap_epoch += 1
        epoch = self._hotlap_epoch
        self._hotlap_holder = weakref.ref(holder)
        self._sampler_iter: Any = (_Order(epoch, base_seed, index) for index in sampler_iter)
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def dismiss(self) -> None:
        """End the processes."""
        self._shutdown_workers()


def _settings(loader: Any) -> tuple[Any, ...]:
    return (
        id(loader.dataset._hotlap_dataset), loader.num_workers, loader.prefetch_factor, loader.timeout,
        loader.pin_memory, loader.pin_memory_device, id(loader.multiprocessing_context), id(loader.collate_fn),
        id(loader.worker_init_fn), loader.drop_last,
    )  # fmt: skip


@final
class Epoch(_BaseDataLoaderIter):
    """One pass over a loader whose workers stay."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)  # draws the base seed
        self.over = False
        self._loader = loader
        self._crew: Crew | None = None
        if not loader.dataset._hotlap_begins_late:
            super()._reset(loader, True)  # torch asks the sampler for an iterator twice
            self._begin()

    def _begin(self) -> Crew:
        crew = self._crew = _crew_of(self._loader)
        crew.begin(self._sampler_iter, int(self._base_seed), self)
        return crew

    def _next_data(self) -> Any:
        crew = self._begin() if self._crew is None else self._crew
        try:
            return late_batches.finish(crew.take())
        except StopIteration:
            self.over = True
            raise


def epoch_of(loader: Any) -> Callable[[Any], Any] | None:
    """What makes `iter(loader)` for a loader over a `LastingDataset`; None: torch."""
    dataset = loader.dataset
    if not loader.num_workers:
        dataset._hotlap_notes.say(f"{type(dataset._hotlap_dataset).__name__} is read without workers, so none are kept")
        return None
    if dataset._hotlap_begins_late:
        return Epoch
    reason = _why_anew(loader)
    if reason is None:
        return Epoch
    if reason:
        dataset._hotlap_notes.say(f"workers are not kept: {reason}")
    return plain_workers


def _why_anew(loader: Any) -> str | None:
    """Why workers of this loader cannot be those of its last epoch; empty where that was said before."""
    state = loader.__dict__
    if loader.persistent_workers:
        return "the script keeps them itself (persistent_workers=True)"
    if state.get("_hotlap_restarts", 0) >= MAX_RESTARTS:
        return ""  # each was said
    crew = state.get("_hotlap_crew")
    if crew is not None and not crew.free():
        return "another pass over the loader has them"
    if why_no_copies(loader) is not None:
        # A forked worker is a copy of this process, others begin with what they are sent.
        state["_hotlap_sent"] = sent(loader, loader.dataset._hotlap_dataset)
        if state["_hotlap_sent"] is None:
            return "what they are sent cannot be compared"
    return why_any_order(loader)


def plain_workers(loader: Any) -> Any:
    """Those that the loader would have without this."""
    plain = copy.copy(loader)
    plain.__dict__.update(dataset=loader.dataset._hotlap_dataset)
    return plain._get_iterator()


def _crew_of(loader: Any) -> Crew:
    """The processes of the last epoch if they are as good as new ones, or new ones."""
    state = loader.__dict__
    if loader.dataset._hotlap_begins_late and _why_anew(loader) is not None:
        return _new_crew(loader)  # for this pass alone
    crew: Crew | None = state.get("_hotlap_crew")
    if crew is not None:
        reason = crew.unfit(loader)
        if reason is None:
            try:
                reason = crew.look()
            except RuntimeError as error:
                reason = str(error)
        if reason is None:
            return crew
        state["_hotlap_crew"] = None
        crew.dismiss()
        state["_hotlap_restarts"] = state.get("_hotlap_restarts", 0) + 1
        loader.dataset._hotlap_notes.say(f"workers were started anew: {reason}")
    made = state["_hotlap_crew"] = _new_crew(loader)
    return made


def _new_crew(loader: Any) -> Crew:
    dataset = loader.dataset._hotlap_dataset
    return Crew(loader, fetched(loader, dataset) if type(dataset) is LateDataset else dataset)
