"""Items that are computed a second time, before any is kept and as training goes on: do they come out the same?"""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

import torch

from hotlap.data.checks.opened_files import reads_unnamed_files
from hotlap.data.checks.random_state import States
from hotlap.data.item.compare import entangled, same, shares_memory
from hotlap.data.item_cache.fill import CacheFill


class ComputedAgain(CacheFill):
    """What an item is, and whether it may be kept."""

    @abstractmethod
    def _found_different(self, item: Any) -> None:
        """This one came out different when it was computed again: keep none, or begin anew."""

    def item(self, index: Any) -> Any:
        """What is kept of an item, computed now."""
        return self.dataset[index]

    def compared(self, computed: Sequence[tuple[Any, Any]]) -> tuple[bool, bool, float] | str:
        """IN A COPY, so that whatever an item counts, reads on or draws from stays where it was: compute these items,
        (index, item), once more.

        Returns:
            Whether they share memory, whether they are read from what Python did not open, and seconds of one; a
            sentence if they cannot be kept.
        """
        if self.in_copy:
            torch.set_num_threads(1)  # the threads of its pool are not there
        again_s = float("inf")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own process says it
            for each in computed:
                started_s = perf_counter()
                if not self.come_out_again([each]):
                    return str(self.note)
                # The least: on a busy machine one that is held up for a time slice counts a hundred times.
                again_s = min(again_s, perf_counter() - started_s)
        assert self.inputs is not None  # nothing was given up
        return (
            self.own_memory,
            reads_unnamed_files(lambda: self.again(computed[0][0])) and not self.inputs.files,
            again_s,
        )

    def come_out_again(self, computed: Iterable[tuple[Any, Any]]) -> bool:
        """Compute these items, (index, item), once more; False, and given up, if one is another one then."""
        for index, item in computed:
            again = self.again(index)
            if again is None:
                return False
            if not same(item, again[0]):
                self._found_different(item)
                return False
            self.own_memory |= shares_memory(item, again[0]) or entangled(item)
        return True

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
