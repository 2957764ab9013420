"""A first look at the items of a script with worker processes: in a forked copy that plays one of its workers.

Nothing of the data set is run in this process. The copy is told that it is the worker of that number, has its seeds,
and has called `worker_init_fn`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, final

from hotlap.data.checks.forked import NoAnswer, cannot_fork, in_a_copy
from hotlap.data.checks.inputs import Inputs
from hotlap.data.checks.opened_files import OpenedFiles, reads_unnamed_files
from hotlap.data.checks.watch import Watch
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


@final
class _Compute:
    """IN A COPY: items, and what was seen around computing them."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._inputs: Inputs | None = None
        self.reason: str | None = None

    def __call__(self, wanted: Sequence[int]) -> list[Any]:
        inputs = self._inputs or Inputs(self._dataset)
        before = inputs.streams.states()
        items = [self._dataset[wanted[0]]]
        if self._inputs is None:
            inputs.note()
            self._inputs = inputs
        items += [self._dataset[position] for position in wanted[1:]]
        self.reason = self.reason or inputs.why_not_kept(before)
        return items


def first_look(dataset: Any, indices: list[int], role: Role) -> Seen:
    """Compute some items in a copy of this process, twice."""
    why_not = cannot_fork(shares_files=True)
    if why_not is not None:
        return Seen(reason=why_not, items=[])
    try:
        seen = in_a_copy(lambda: _seen(dataset, indices, role), timeout_s=role.timeout_s)
    except NoAnswer as reason:
        return Seen(reason=f"items cannot be had by their places in a copy of this process ({reason})", items=[])
    return seen if isinstance(seen, Seen) else Seen(reason="its first items could not be read", items=[])


def _seen(dataset: Any, indices: list[int], role: Role) -> Seen:
    watch = Watch(dataset)
    role.play(0, dataset)
    changed = watch.changed()
    if changed is not None:
        return Seen(reason=f"worker_init_fn changes {changed} of the data set", items=[])
    compute = _Compute(dataset)
    files = OpenedFiles()
    with files.opened_by_items():
        compute(indices[:1])
    started_s = perf_counter()
    items = compute(indices)
    item_s = (perf_counter() - started_s) / len(indices)
    role.tell(1, dataset)  # another worker must get the same items
    with files.opened_by_items():
        again = compute(indices)
        reads = reads_unnamed_files(lambda: compute(indices[:1])) and not files
    seen = Seen(
        reason=compute.reason
        or (None if all(map(same, items, again)) else "an item came out different the second time"),
        items=[],
        reads_files=reads,
    )
    if seen.reason is not None:
        return seen
    own = any(map(shares_memory, items, again)) or any(map(entangled, items))
    return replace(seen, items=items, own_memory=own, item_s=item_s)
