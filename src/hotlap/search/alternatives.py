"""Which levers exclude others: what is accepted leaves nothing to them, or cannot stand beside them."""

from collections.abc import Iterable, Sequence

from hotlap.experiment import Stack
from hotlap.levers import Lever
from hotlap.levers.data_wrappers import CachedDataset
from hotlap.levers.loaders import collated_by_torch, trained_on
from hotlap.levers.workers import Workers
from hotlap.record import Run, lever_title

ALTERNATIVES: tuple[tuple[str, ...], ...] = (
    # The items of a data set are served by one of them: gathered where they lie, or kept whole, or kept in part.
    ("batched-fetch", "cached-dataset", "cached-prefix"),
    ("batched-fetch", "device-resident", "cached-prefix"),
    # Either does the whole update of the optimizer.
    ("fused-optimizer", "native-step parts=all"),
    ("fused-optimizer", "native-step parts=optimizer"),
)
"""Levers, some by one of their settings, of which one excludes the others: they are never accepted together."""


def alternative(title: str, taken: Iterable[str]) -> str | None:
    """Of the levers taken the first that excludes this one, be it another setting of it; None where none does.
    Each by its title."""
    groups = ((_name(title),), *ALTERNATIVES)
    return next((other for other in taken if any(_is_in(title, one) and _is_in(other, one) for one in groups)), None)


def excluding(lever: Lever, stack: Stack, run: Run) -> str | None:
    """The accepted lever beside which this one is none to try; None where there is none."""
    taken = list(map(lever_title, stack))
    gathered = CachedDataset.name in taken and all(map(collated_by_torch, trained_on(run)))
    if gathered and lever.name == Workers.name:
        return CachedDataset.name  # the training process gathers all batches, whatever workers a loader is to have
    return alternative(lever.title(), taken)


def _is_in(title: str, group: Sequence[str]) -> bool:
    return title in group or _name(title) in group


def _name(title: str) -> str:
    return title.partition(" ")[0]
