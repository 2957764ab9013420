"""What the data levers share: the data set that a DataLoader is made with, in the process and in the source."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from inspect import signature
from typing import Any

from hotlap.data.memory import SHARE_OF_FREE
from hotlap.data.recent import Recent
from hotlap.levers.lever import Patch
from hotlap.record import CallSite, Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import Edit, WrapArgument
from hotlap.units import percent

# Loader levers are compared between processes, whose noise hides gains below this (docs: measuring, A/A).
MIN_SHARE = 0.02

# Functions of `hotlap.data` around a data set, the innermost first: what serves its items, what is done to whole
# batches, whose workers make them, and where they go. `hotlap.data.stand_in` refuses any other order.
NESTING = ("batched", "cached", "resident", "cached_prefix", "late", "lasting", "overlapped")

NO_LOADER = "The script makes no DataLoader."
NO_LINE = "The loaders are not made in the script's own source, so there is no line to change."


def trained_on(run: Run) -> Sequence[LoaderFacts]:
    """The loaders whose batches are trained on; all of them where that is not known."""
    return [loader for loader in run.loaders if loader.trained_on] or run.loaders


def refused_by_all(run: Run, why: Callable[[LoaderFacts], str | None]) -> str | None:
    """The first reason if `why` has one for each loader that is trained on; None if it leaves one of them."""
    reasons = [why(loader) for loader in trained_on(run)]
    return None if None in reasons else reasons[0]


def made_anew(loader: LoaderFacts) -> str:
    """Why nothing can be kept of a data set that lives for an epoch."""
    return (
        f"The script makes {loader.dataset} anew for a later epoch, and what is kept goes with the old one: make it "
        "once, before the loop over epochs."
    )


def hardly_waits(run: Run) -> str | None:
    """A sentence if faster batches could gain nothing."""
    share = run.share(Phase.INPUT)
    if share is None or share >= MIN_SHARE:
        return None
    return f"Waiting for batches takes {percent(share)} of a step, so there is nothing to gain."


def memory_bytes(machine: Machine) -> int:
    """What caches, batches on their way and workers may take."""
    given = machine.memory_limit_bytes
    return int(SHARE_OF_FREE * machine.available_bytes) if given is None else min(given, machine.available_bytes)


def saves_at_most_s(run: Run, ceilings: Sequence[Ceiling]) -> float:
    """What free batches would save per step: the waiting, or what the ceiling promises at best."""
    mean_s = sum(run.step_s) / len(run.step_s) if run.step_s else 0.0
    promised = [mean_s * (1 - 1 / ceiling.speedup.high) for ceiling in ceilings if ceiling.name == "input"]
    return max([run.mean_phase_s(Phase.INPUT) or 0.0, *promised])


def sites(run: Run, loaders: Iterable[LoaderFacts]) -> Sequence[CallSite]:
    """Where these loaders are made; one line may make several."""
    wanted = {loader.id for loader in loaders}
    found = {
        (site.path, site.line, site.col): site
        for site in run.call_sites
        if site.calls == "torch.utils.data.DataLoader" and site.detail.get("loader") in wanted
    }
    return tuple(found.values())


def wrapping_edits(run: Run, loaders: Iterable[LoaderFacts], function: str, *, arguments: str = "") -> Sequence[Edit]:
    """`function(...)`, one of `NESTING`, around the data set of each of these loaders, at its place among them."""
    imports = f"from hotlap.data import {function}"
    inside = tuple(f"hotlap.data.{name}" for name in NESTING[NESTING.index(function) + 1 :])
    return tuple(
        WrapArgument(
            site=site,
            position=0,
            keyword="dataset",
            function=function,
            arguments=arguments,
            imports=imports,
            inside=inside,
        )
        for site in sites(run, loaders)
    )


def replace_arguments(patch: Patch, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """CHILD: each DataLoader made from now on gets what `change` gives for the arguments that the script gave."""
    from torch.utils.data import DataLoader

    make = DataLoader.__init__
    parameters = signature(make)

    @wraps(make)
    def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        try:
            given = dict(parameters.bind(loader, *args, **kwargs).arguments)
        except TypeError:
            make(loader, *args, **kwargs)  # torch itself says what is wrong
            return
        first = next(iter(parameters.parameters))
        given.pop(first)
        make(loader, **change(given))

    patch.set(DataLoader, "__init__", __init__)


def replace_datasets(patch: Patch, wrap: Callable[[Any], Any]) -> None:
    """CHILD: each DataLoader made from now on reads `wrap(dataset)`; those made before are left alone."""
    from torch.utils.data import DataLoader

    from hotlap.data.iterators import taught

    def change(given: dict[str, Any]) -> dict[str, Any]:
        return {**given, "dataset": wrap(given["dataset"])} if "dataset" in given else given

    replace_arguments(patch, change)
    patch.set(DataLoader, "_get_iterator", taught(DataLoader._get_iterator))


def replace_datasets_once(
    patch: Patch,
    make: Callable[[Any], Any],
    *,
    idle: Callable[[Any], str | None],
    settled: Callable[[Any], bool] = lambda made: True,
    around: str | None = None,
    within: str | None = None,
) -> None:
    """CHILD: as `replace_datasets`, with one `make(dataset)` for all loaders that a script makes of a data set.

    Arguments:
        idle: what `make` returned -> why it does nothing; "" where that is not known yet, None if it does something.
        settled: what `make` returned -> True if its batches come as they will from now on.
        around: a function of ours whose result `make` takes as well; by default it takes data sets of the script's own.
        within: a function of ours that may stand around what `make` returns, beside those that stand around all.
    """
    from hotlap.data import stand_in

    held: Recent[Any] = Recent()

    def wrap(dataset: Any) -> Any:
        served = not stand_in.stood_in(dataset) or (around is not None and stand_in.made_by(dataset) == around)
        return held.get(dataset, make) if served and has_items(dataset) else dataset

    def ours() -> Iterator[Any]:
        return filter(stand_in.stood_in, held.values())

    def why_idle() -> str | None:
        return why_none_works([idle(made) for made in ours()])

    patch.settled.append(lambda: all(map(settled, ours())))
    patch.idle.append(why_idle)
    outside = ("overlapped", "lasting", *([] if within is None else [within]))
    replace_datasets(patch, lambda dataset: stand_in.within(dataset, wrap, outside=outside))


def why_none_works(reasons: Sequence[str | None]) -> str | None:
    """The first of the reasons why one of several does nothing, "" where none is known; None if one does something."""
    return None if None in reasons else next((reason for reason in reasons if reason), "")


def has_items(dataset: Any) -> bool:
    """CHILD: True for a map-style data set (a data pipe, which torch wraps itself, is not one of ours)."""
    from torch.utils.data import IterableDataset, MapDataPipe

    return hasattr(type(dataset), "__getitem__") and not isinstance(dataset, IterableDataset | MapDataPipe)
