"""Items that are computed a second time, before any is kept and as training goes on: do they come out the same?"""

import operator
import warnings
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple, final

import torch

from hotlap.data.checks.inputs import Contents
from hotlap.data.checks.opened_files import reads_unnamed_files
from hotlap.data.checks.random_state import States
from hotlap.data.item.codec import entangled, same, shares_memory
from hotlap.data.item_cache.fill import CacheFill
from hotlap.data.wrapper import warn

# Never for more than one part in so many of the time.
SHARE = 50

# A kept item is computed again once in so many batches, if it is time to.
RECHECK_EVERY = 16

# A data set that is changed from outside more often than this (each epoch, say) is not worth filling again.
MAX_RESTARTS = 2

DIFFERENT = "came out different when it was computed again"


@final
class Rechecks:
    """When what is kept is computed again: as training goes on, in a small part of the time."""

    def __init__(self, cost_s: float = 0.0) -> None:
        self.cost_s = cost_s
        """What the last one took."""
        self._ended_s = perf_counter()

    def due(self) -> bool:
        """It is time for the next."""
        return perf_counter() - self._ended_s >= SHARE * self.cost_s

    def took(self, started_s: float) -> None:
        """One that was begun then ends now."""
        self._ended_s = perf_counter()
        self.cost_s = self._ended_s - started_s


class Compared(NamedTuple):
    """What was seen when items were computed twice."""

    own_memory: bool
    """They share memory with the data set, or with each other."""
    reads_unnamed: bool
    """They are read from what Python did not open."""
    item_s: float
    """Seconds that one takes."""


class ComputedAgain(CacheFill):
    """What an item is, and whether it may be kept."""

    rechecks: Rechecks
    _num_batches = _restarts = 0

    @property
    def contents(self) -> Contents | None:
        """All that items are made from, once it was looked into."""
        return None if self.inputs is None else self.inputs.contents

    def item(self, index: Any) -> Any:
        """What is kept of an item, computed now."""
        return self.dataset[index]

    def compared(self, computed: Sequence[tuple[Any, Any]]) -> Compared | str:
        """IN A COPY, so that whatever an item counts, reads on or draws from stays where it was: compute these items,
        (index, item), once more. A sentence if they cannot be kept."""
        if self.in_copy:
            torch.set_num_threads(1)  # the threads of its pool are not there
        again_s = float("inf")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own process says it
            for index, item in computed:
                started_s = perf_counter()
                again = self.again(index)
                if again is not None and not same(item, again[0]):
                    self._found_different(item)
                    again = None
                if again is None:
                    return str(self.note)
                self.own_memory |= shares_memory(item, again[0]) or entangled(item)
                # The least: on a busy machine one that is held up for a time slice counts a hundred times.
                again_s = min(again_s, perf_counter() - started_s)
        assert self.inputs is not None  # nothing was given up
        reads_unnamed = reads_unnamed_files(lambda: self.again(computed[0][0])) and not self.inputs.files
        return Compared(self.own_memory, reads_unnamed, again_s)

    def again(self, index: Any) -> tuple[Any] | None:
        """(the item computed once more,), leaving no trace in any generator; None if that gave reason to give up."""
        assert self.inputs is not None  # something was computed before
        streams, files = self.inputs.streams, self.inputs.files
        before = streams.states()
        try:
            with files.opened_by_items():
                item = self.item(index)
            reason = self._why_not_kept(before)
        except Exception as error:
            reason = f"an item of {self.name} could not be computed twice ({type(error).__name__}: {error})"
        if reason is None:
            return (item,)
        streams.restore(before)
        self.give_up(reason)
        return None

    def _why_not_kept(self, before: States) -> str | None:
        """What was seen around computing items that forbids to keep them."""
        reason = None if self.inputs is None else self.inputs.why_not_kept(before)
        return None if reason is None else f"{reason}, so items are computed each time"

    def _recheck(self, indices: Sequence[Any]) -> bool:
        """Compute one of these kept items again, if it is time to; False if it came out different."""
        if self._num_batches % RECHECK_EVERY or not self.rechecks.due():
            return True
        started_s = perf_counter()
        index = indices[self._num_batches // RECHECK_EVERY % len(indices)]
        again = self.again(index)
        store = self.store
        if again is None or store is None:
            return False
        if not store.holds(operator.index(index), again[0]):
            self._found_different(again[0])
            return False
        self.rechecks.took(started_s)
        return True

    def _found_different(self, item: Any) -> None:
        contents = self.contents
        changed = None if contents is None or self.in_copy else contents.differs()
        if contents is not None and changed is not None:  # within the epoch
            self._drop_as_changed(contents, changed)
        elif not same(item, item):
            self.give_up(f"{self.name} is not kept: its items hold what cannot be compared")
        else:
            self.found_different()

    def found_different(self) -> None:
        """A kept item is not what it was."""
        kept = f"; {self.num_cached} kept items were dropped" if self.num_cached else ""
        self.give_up(f"an item of {self.name} {DIFFERENT}{kept}; items are computed each time")
        warn(str(self.note))

    def _drop_as_changed(self, contents: Contents, changed: str) -> None:
        if contents.changed_for_copies() is not None:
            self.progress.refuse(f"{changed} was changed")  # persistent workers read it anew
        self.drop(f"{changed} of the data set")

    def drop(self, reason: str) -> None:
        """Forget all items because the data set was changed; begin again, unless that happens too often."""
        with self._lock:
            if self.store is None and self.inputs is None:
                return
            kept = self.num_cached
            self._forget()
            if kept == 0:
                return
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                self.give_up(f"{reason} was changed again and again while items were kept; items are computed")
            else:
                self.say(f"{reason} was changed: {kept} kept items were dropped, and are computed anew")
