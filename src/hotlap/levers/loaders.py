"""What the data levers share: the calls that make DataLoaders, and the edits of their arguments."""

import ast
import builtins
import sys
from collections.abc import Callable, Sequence

from hotlap.data.item_cache.memory import SHARE_OF_FREE
from hotlap.levers.frameworks import is_within
from hotlap.record import CallSite, Ceiling, LoaderFacts, Machine, Phase, Run
from hotlap.source import AddArgument, Edit, Script, argument, found_at, scripts, why_unseen
from hotlap.units import percent

# Loader levers are compared between processes, whose noise hides gains below this (docs: measuring, A/A).
MIN_SHARE = 0.02

# A DataLoader takes them by position; what comes behind them is written by name.
_BY_POSITION = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler")

# What levers write by name.
_WRITTEN = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory")

_DATA_LOADER = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")

NO_LOADER = "The script makes no DataLoader."
NO_LINE = "The loaders are not made in the script's own source, so there is no line to change."


def trained_on(run: Run) -> Sequence[LoaderFacts]:
    """The loaders whose batches are trained on; all of them where that is not known. In the place of one that a
    framework has made of the script's own (`accelerator.prepare(loader)`) stands that."""
    within = {site.detail.get("loader") for site in run.call_sites if is_within(site)}
    own = {(loader.dataset, loader.num_items): loader for loader in run.loaders if loader.id not in within}
    used = [loader for loader in run.loaders if loader.trained_on] or run.loaders
    found = [own.get((one.dataset, one.num_items), one) if one.id in within else one for one in used]
    return list({loader.id: loader for loader in found}.values())


def refused_by_all(run: Run, why: Callable[[LoaderFacts], str | None]) -> str | None:
    """The first reason if `why` has one for each loader that is trained on; None if it leaves one of them."""
    reasons = [why(loader) for loader in trained_on(run)]
    return None if None in reasons else reasons[0]


def collated_by_torch(loader: LoaderFacts) -> bool:
    """Items are put together by torch's own function, a batch at a time."""
    return loader.batch_size is not None and loader.default_collate


def hardly_waits(run: Run) -> str | None:
    """A sentence if faster batches could gain nothing."""
    return nothing_to_gain("Waiting for batches takes", run.share(Phase.INPUT))


def nothing_to_gain(what: str, share: float | None) -> str | None:
    """`what` and a number, where this part of a step is known and too small to be worth saving."""
    if share is None or share >= MIN_SHARE:
        return None
    return f"{what} {percent(share)} of a step, so there is nothing to gain."


def memory_bytes(machine: Machine) -> int:
    """What caches, batches on their way and workers may take."""
    given = machine.memory_limit_bytes
    return int(SHARE_OF_FREE * machine.available_bytes) if given is None else min(given, machine.available_bytes)


def saves_at_most_s(run: Run, ceilings: Sequence[Ceiling]) -> float:
    """What free batches would save per step: the waiting, or what the ceiling promises at best."""
    promised = [run.mean_step_s() * (1 - 1 / ceiling.speedup.high) for ceiling in ceilings if ceiling.name == "input"]
    return max([run.mean_phase_s(Phase.INPUT) or 0.0, *promised])


def sites(run: Run, loader: LoaderFacts) -> Sequence[CallSite]:
    """Where the script makes this loader."""
    return [site for site in run.call_sites if site.detail.get("loader") == loader.id and not is_within(site)]


def argument_edits(run: Run, loader: LoaderFacts, **arguments: str) -> Sequence[Edit]:
    """These keywords in the calls that make this loader; none where a call hides what it is given (`why_hidden`)."""
    made = sites(run, loader) if why_hidden(run, loader) is None else ()
    return tuple(
        AddArgument(site=site, keyword=keyword, value=value) for site in made for keyword, value in arguments.items()
    )


def why_hidden(run: Run, loader: LoaderFacts) -> str | None:
    """Why arguments cannot be written into the calls that make this loader; None if they can.

    Raises:
        UserError: a file is missing or changed since.
    """
    reasons = [(site.line, _hides(found_at(site, scripts(run)))) for site in sites(run, loader)]
    return next((f"{reason} (line {line})." for line, reason in reasons if reason is not None), None)


def calls_of(run: Run, loader: LoaderFacts) -> list[tuple[Script, ast.Call]]:
    """The calls that make this loader, as far as they can be told.

    Raises:
        UserError: a file is missing or changed since.
    """
    return [found for site in sites(run, loader) if (found := found_at(site, scripts(run))) is not None]


def dataset_of(script: Script, call: ast.Call) -> ast.expr | None:
    """What a loader is given to read; None where that cannot be seen, or other arguments stand there: where Python
    itself calls what makes it, as in `list(map(make, datasets))`, and in `DataLoader.__init__(self, dataset)`."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            others = False
        case ast.Name(id=name) if name not in script.names and hasattr(builtins, name):
            others = True
        case function:
            root = (script.full_name(function) or "").partition(".")[0]
            others = root in sys.stdlib_module_names or ast.unparse(function).endswith("__init__")
    return None if others else argument(call, 0, "dataset")


def _hides(found: tuple[Script, ast.Call] | None) -> str | None:
    """What stands between a call and the arguments of a DataLoader, as a clause."""
    if found is None:
        return "The call that makes the loader cannot be told from others"
    script, call = found
    if script.full_name(call.func) not in _DATA_LOADER:
        return f"{ast.unparse(call.func)} is not the DataLoader of torch.utils.data, imported by its name"
    if any(isinstance(arg, ast.Starred) for arg in call.args):
        return "The loader is given arguments by *, which may hide others: write them out"
    unseen = why_unseen(call, *_WRITTEN, "in_order")
    if unseen is not None:
        return f"For the loader {unseen}"
    if len(call.args) > len(_BY_POSITION):
        return f"The loader is given more than {len(_BY_POSITION)} arguments by position: name them"
    return None
