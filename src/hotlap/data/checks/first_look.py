"""A first look at the items of a script with worker processes: in a forked copy that plays one of its workers.

Nothing of the data set is run in this process. The copy is told that it is the worker of that number, has its seeds,
and has called `worker_init_fn`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from hotlap.data.checks.forked import NoAnswer, cannot_fork, in_a_copy
from hotlap.data.checks.inputs import Inputs
from hotlap.data.checks.opened_files import OpenedFiles, reads_unnamed_files
from hotlap.data.item.compare import entangled, same, shares_memory
from hotlap.data.loader.workers import Role

# So many items are computed twice before anything is kept.
NUM_FIRST_CHECKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a copy says of the first items."""

    reason: str | None
    items: list[Any]
    own_memory: bool = False
    item_s: float = 0.0
    reads_files: bool = False
    """An item is read from somewhere, which Python did not open."""


def first_look(item: Callable[[int], Any], dataset: Any, indices: list[int], role: Role) -> Seen:
    """Compute some items of a data set (`item` does) in a copy of this process, twice."""
    why_not = cannot_fork(shares_files=True)
    if why_not is not None:
        return Seen(reason=why_not, items=[])
    try:
        seen = in_a_copy(lambda: _seen(item, dataset, indices, role), timeout_s=role.timeout_s)
    except NoAnswer as reason:
        return Seen(reason=f"items cannot be had by their places in a copy of this process ({reason})", items=[])
    return seen if isinstance(seen, Seen) else Seen(reason="its first items could not be read", items=[])


def _seen(item: Callable[[int], Any], dataset: Any, indices: list[int], role: Role) -> Seen:
    """IN A COPY: the items, and what was seen around computing them."""
    inputs = Inputs(dataset)
    role.play(0, dataset)
    changed = inputs.watch.changed()
    if changed is not None:
        return Seen(reason=f"worker_init_fn changes {changed} of the data set", items=[])

    def compute(wanted: list[int]) -> list[Any]:
        return [*map(item, wanted)]

    files = OpenedFiles()
    before = inputs.streams.states()
    with files.opened_by_items():
        compute(indices[:1])
        inputs.note()  # a file that is opened with the very first item is no change, nor is a generator made then
        reason = inputs.why_not_kept(before)
        before = inputs.streams.states()
        started_s = perf_counter()
        items = compute(indices)
        item_s = (perf_counter() - started_s) / len(indices)
        reason = reason or inputs.why_not_kept(before)
        role.tell(1, dataset)  # another worker must get the same items
        again = compute(indices)
        reads = reads_unnamed_files(lambda: compute(indices[:1])) and not files
    reason = reason or inputs.why_not_kept(before)
    if reason is None and not all(map(same, items, again)):
        reason = "an item came out different the second time"
    if reason is not None:
        return Seen(reason=reason, items=[])
    own = any(map(shares_memory, items, again)) or any(map(entangled, items))
    return Seen(reason=None, items=items, own_memory=own, item_s=item_s, reads_files=reads)
