"""batched-fetch: batches of data that lies in memory are gathered, not looked up item by item and collated."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ClassVar, final

from hotlap.levers.cached_dataset import MIN_SHARE, saves_at_most_s
from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.record import Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import Edit, WrapArgument
from hotlap.units import percent

# What `hotlap.data.batched` serves for certain. (It serves chains of these as well, but the record does not say what is
# inside of a `Subset`.)
KINDS = frozenset({"TensorDataset", "Tensor", "ndarray", "memmap"})


@final
@dataclass(frozen=True, slots=True)
class BatchedFetch(Lever):
    """Wraps tensors, arrays and `TensorDataset` in `hotlap.data.batched`.

    What: a batch is one `index_select` per tensor in place of a Python loop over the items and a stack of the rows.
    Same samples, same order, same random draws.
    Why: fetching tensors in memory one by one is most of a small model's step (pytorch/pytorch#106704, #4959).
    When it hurts: nowhere that is known; nothing is copied or kept, and what the script changes in its tensors is in
    the next batch. Classes derived from these are left alone, for their items may be something else.
    """

    name: ClassVar[str] = "batched-fetch"
    scope: ClassVar[Scope] = Scope.LOADER
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def rejects(self, run: Run, machine: Machine) -> str | None:
        """What the loaders read, then what there is to gain."""
        if not run.loaders:
            return "The script makes no DataLoader."
        used = [loader for loader in run.loaders if loader.trained_on] or list(run.loaders)
        if not any(map(_served, used)):
            return f"Items of {used[0].dataset} are made in Python, one by one; there is nothing to gather them from."
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

        from hotlap.data.gathering import BatchedDataset, gather_of
        from hotlap.data.iterators import taught

        make = DataLoader.__init__
        parameters = signature(make)

        @wraps(make)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
            try:
                given = parameters.bind(loader, *args, **kwargs).arguments
            except TypeError:
                given = {}  # torch itself says what is wrong
            if "dataset" in given and gather_of(given["dataset"]) is not None:
                if "dataset" in kwargs:
                    kwargs["dataset"] = BatchedDataset(kwargs["dataset"])
                else:
                    args = (BatchedDataset(args[0]), *args[1:])
            make(loader, *args, **kwargs)

        patch.set(DataLoader, "__init__", __init__)
        patch.set(DataLoader, "_get_iterator", taught(DataLoader._get_iterator))

    def edits(self, run: Run) -> Sequence[Edit]:
        """`batched(...)` around the data set of each loader that is served."""
        served = {loader.id for loader in run.loaders if _served(loader)}
        sites = {
            (site.path, site.line, site.col): site  # one line may make several loaders
            for site in run.call_sites
            if site.calls == "torch.utils.data.DataLoader" and site.detail.get("loader") in served
        }
        imports = "from hotlap.data import batched"
        return tuple(
            WrapArgument(site=site, position=0, keyword="dataset", function="batched", imports=imports)
            for site in sites.values()
        )


def _served(loader: LoaderFacts) -> bool:
    return loader.dataset in KINDS and loader.num_items is not None
