"""cached-dataset: items are computed once, and batches are gathered from memory."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, final

from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import Edit, WrapArgument
from hotlap.units import percent, size

# Loader levers are compared between processes, whose noise hides gains below this (docs: measuring, A/A).
MIN_SHARE = 0.02

# As in hotlap.data.memory: the rest is left to the training and to others.
SHARE_OF_FREE = 0.8

# Caches held for data sets that no loader uses at the moment, so that a script which makes a new loader each epoch
# finds its items again. Each holds memory, so there is an end to it.
MAX_HELD = 8


@final
@dataclass(frozen=True, slots=True)
class CachedDataset(Lever):
    """Wraps map-style data sets in `hotlap.data.cached`.

    What: each item is computed once (where that is safe, in parallel) and kept in contiguous arrays; then a batch is
    one gather per tensor instead of a Python loop over the items and a stack. Same samples, same order, same random
    draws. Worker processes of the script are needed for the first epoch at most.
    Why: reading, decoding and collating item by item is most of a small model's step: 5.5 days became 24 hours in
    pytorch/pytorch#26957; even tensors in memory are slow when they are fetched one by one (pytorch/pytorch#106704,
    #4959).
    When it hurts: random augmentation and other items that change must be computed each time (they are noticed, and
    the true items handed out); the first epoch is a little slower; the items must fit into memory; a data set that
    counts, logs or mutates things as it is read does so less often.
    """

    name: ClassVar[str] = "cached-dataset"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """What the loaders are first, then whether their items can be kept, then what there is to gain."""
        if not run.loaders:
            return "The script makes no DataLoader."
        used = [loader for loader in run.loaders if loader.trained_on] or list(run.loaders)
        reasons = [_refuses(loader, machine) for loader in used]
        if None not in reasons:
            return reasons[0]
        share = run.share(Phase.INPUT)
        if share is not None and share < MIN_SHARE:
            return f"Waiting for batches takes {percent(share)} of a step, so there is nothing to gain."
        if not self.edits(run):
            return "The loaders are not made in the script's own source, so there is no line to change."
        return None

    def saves_at_most_s(self, run: Run, ceilings: Sequence[Ceiling]) -> float:
        """All that a step waits for its batch, or what the ceiling promises at best: whichever is more."""
        return saves_at_most_s(run, ceilings)

    def install(self, patch: Patch) -> None:
        """Replaces the data set that a DataLoader is made with; those made before are left alone."""
        from torch.utils.data import DataLoader

        from hotlap.data.iterators import taught

        wrapped = _Wrapped(patch)
        make = DataLoader.__init__
        parameters = signature(make)

        @wraps(make)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
            try:
                given = parameters.bind(loader, *args, **kwargs).arguments
            except TypeError:
                given = {}  # torch itself says what is wrong
            if "dataset" in given and _has_items(given["dataset"]):
                replacement = wrapped.cached(given["dataset"])
                if "dataset" in kwargs:
                    kwargs["dataset"] = replacement
                else:
                    args = (replacement, *args[1:])
            make(loader, *args, **kwargs)

        patch.set(DataLoader, "__init__", __init__)
        patch.set(DataLoader, "_get_iterator", taught(DataLoader._get_iterator))
        patch.settled.append(wrapped.settled)

    def edits(self, run: Run) -> Sequence[Edit]:
        """`cached(...)` around the data set of each loader that is served."""
        served = {
            loader.id for loader in run.loaders if loader.num_items is not None and loader.deterministic is not False
        }
        sites = {
            (site.path, site.line, site.col): site  # one line may make several loaders
            for site in run.call_sites
            if site.calls == "torch.utils.data.DataLoader" and site.detail.get("loader") in served
        }
        imports = "from hotlap.data import cached"
        return tuple(
            WrapArgument(site=site, position=0, keyword="dataset", function="cached", imports=imports)
            for site in sites.values()
        )


def saves_at_most_s(run: Run, ceilings: Sequence[Ceiling]) -> float:
    """What free batches would save per step: the waiting, or what the ceiling promises at best."""
    mean_s = sum(run.step_s) / len(run.step_s) if run.step_s else 0.0
    promised = [mean_s * (1 - 1 / ceiling.speedup.high) for ceiling in ceilings if ceiling.name == "input"]
    return max([run.mean_phase_s(Phase.INPUT) or 0.0, *promised])


def _refuses(loader: LoaderFacts, machine: Machine) -> str | None:
    """Why the data set of this loader is not worth wrapping."""
    if loader.num_items is None:
        return f"{loader.dataset} is an iterable data set: it has no items to look up by number."
    if loader.deterministic is False:
        return f"Items of {loader.dataset} are not always the same: {loader.why_not or 'two computations differed'}."
    if loader.item_bytes is None:
        return None
    needed = loader.item_bytes * loader.num_items
    if needed <= SHARE_OF_FREE * machine.available_bytes:
        return None
    return (
        f"The {loader.num_items} items of {loader.dataset} would take {size(needed)}, "
        f"more than {percent(SHARE_OF_FREE)} of the {size(machine.available_bytes)} that are free."
    )


def _has_items(dataset: Any) -> bool:
    """True for a map-style data set (a data pipe, which torch wraps itself, is not one of ours)."""
    from torch.utils.data import IterableDataset, MapDataPipe

    return hasattr(type(dataset), "__getitem__") and not isinstance(dataset, IterableDataset | MapDataPipe)


class _Wrapped:
    """CHILD: the data sets wrapped so far, each once, though several loaders may share it."""

    def __init__(self, patch: Patch) -> None:
        self._patch = patch
        # By the id of the data set, which the cache keeps alive; the one used last is at the end.
        self._held: OrderedDict[int, Any] = OrderedDict()

    def cached(self, dataset: Any) -> Any:
        from hotlap.data import CachedDataset as Wrapper
        from hotlap.data import cached

        if type(dataset) is Wrapper:
            return dataset
        held = self._held.pop(id(dataset), None)
        if held is None:
            held = cached(dataset)
            held._hotlap_kept.on_note = self._patch.notes.append
        self._held[id(dataset)] = held
        if len(self._held) > MAX_HELD:
            self._held.popitem(last=False)
        return held

    def settled(self) -> bool:
        """True once every data set that was drawn from is full, has given up, or hardly computes items any more."""
        used = [held._hotlap_kept for held in self._held.values() if held._hotlap_kept.used]
        return all(kept.settled for kept in used)
