"""What the script made (loaders, optimizers) and where: the state that rules and levers look at."""

import multiprocessing
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, Subset
from torch.utils.data._utils.collate import default_collate, default_convert

from hotlap import accelerator
from hotlap.levers.compiling import has_torch_forward
from hotlap.probe import denormals as denormal_numbers
from hotlap.probe.epochs import Epochs
from hotlap.probe.evidence import settings_of
from hotlap.probe.imported import Imported
from hotlap.probe.items import sample_items
from hotlap.probe.parts import Made
from hotlap.probe.sites import call_site, called_through, outwards
from hotlap.record import CallSite, LoaderFacts, OptimizerFacts, Scalar

# Forward calls are looked up in the source until this many different ones are known.
_MAX_FORWARD_SITES = 8


# Layers whose kernels depend on the order of dimensions in memory.
_CONVOLUTIONS = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)

# Loaders made at one place (anew for each epoch, say) count as one; beyond this many places nothing more is noted.
_MAX_LOADERS = 64


@dataclass(slots=True)
class _Loader:
    """What is kept of a loader: `for batch in DataLoader(...)` drops the loader itself at once."""

    facts: LoaderFacts
    dataset: Callable[[], Any]
    """None when the script has dropped it."""
    datasets: Epochs = field(default_factory=Epochs)
    """Those that loaders made at this place went through; `loaders`: these themselves."""
    loaders: Epochs = field(default_factory=Epochs)
    num_trained: int = 0
    """Batches that were trained on, of all loaders made at this place."""


@dataclass(slots=True)
class _Optimizer:
    number: int
    lines: Made = field(default_factory=dict)
    closure: bool = False
    """A step of it was called with one."""


class Facts:
    """Collects while the script runs; `loader_facts` and `optimizer_facts` are asked when the window is over."""

    def __init__(self, *, keeps_data: bool = False) -> None:
        """`keeps_data`: data sets that the script drops stay, to be sampled at the end."""
        self._keeps_data = keeps_data
        self.imported = Imported()
        self.call_sites: list[CallSite] = []
        self.autocast = False
        self.compiled = False
        self.anomaly_mode = False
        """The script has turned it on behind its first step, for good or around each backward pass."""
        self.bars_anomaly_mode = False
        """It stays off for now, whatever the script says (`profilers.what_if`)."""
        self.planned_steps: int | None = None
        self.trains_again: str | None = None
        self._loaders: dict[int, _Loader] = {}
        self._loader_ids: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._loader_places: dict[tuple[str, int, int], int] = {}
        self._optimizers: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Optimizer] = weakref.WeakKeyDictionary()
        self._num_optimizers = 0
        self._last_optimizers: tuple[OptimizerFacts, ...] = ()
        self._forward_sites: dict[tuple[str, int, int], CallSite] = {}

    def made_loader(self, loader: "DataLoader[Any]") -> None:
        """A DataLoader was constructed (called within its constructor's call)."""
        number = len(self._loaders)
        site = call_site("torch.utils.data.DataLoader", detail={"loader": number, **_through(loader)})
        if site is not None:
            number = self._loader_places.setdefault((site.path, site.line, site.col), number)
        if number >= _MAX_LOADERS:
            return
        self._loader_ids[loader] = number
        facts, dataset = _loader_facts(number, loader), _reference(loader, keep=self._keeps_data)
        if number in self._loaders:
            self._loaders[number].facts, self._loaders[number].dataset = facts, dataset
        else:
            self._add(site)
            self._loaders[number] = _Loader(facts, dataset)

    def started_loader(self, loader: "DataLoader[Any]") -> int | None:
        """An epoch of it begins; its number, None if it is not known."""
        number = self._loader_ids.get(loader)
        if number is not None:
            known = self._loaders[number]
            known.datasets.begins(loader.dataset)
            known.loaders.begins(loader)
        return number

    def num_batches(self, number: int | None) -> int | None:
        """Of an epoch of this loader, where torch's own samplers say so."""
        return self._loaders[number].facts.num_batches if number in self._loaders else None

    def drawn_for_training(self, loaders: Sequence[int | None]) -> None:
        """A step trained on a batch of each of these loaders (None: of an iterator nobody knows)."""
        for number in loaders:
            if number is not None:
                self._loaders[number].num_trained += 1

    def made_optimizer(self, optimizer: torch.optim.Optimizer) -> _Optimizer:
        """An optimizer was constructed, or steps for the first time."""
        known = self._optimizers.get(optimizer)
        if known is None:
            known = self._optimizers[optimizer] = _Optimizer(self._num_optimizers)
            self._num_optimizers += 1
        return known

    def made_optimizer_at(self, optimizer: torch.optim.Optimizer) -> None:
        """As `made_optimizer`, within its constructor's call: the call site is recorded as well."""
        known = self.made_optimizer(optimizer)
        known.lines = {id(frame): frame.f_lineno for frame in outwards(sys._getframe())}
        self._add(call_site(type_name(optimizer), detail={"optimizer": known.number, **_through(optimizer)}))

    def used_closure(self, optimizer: torch.optim.Optimizer) -> None:
        """step() was called with a closure."""
        self.made_optimizer(optimizer).closure = True

    def saw_forward(self, module: torch.nn.Module, result: Any) -> None:
        """A module was called for training; where, has it parameters, and what did it return?"""
        if len(self._forward_sites) >= _MAX_FORWARD_SITES:
            return
        trains = next(module.parameters(), None) is not None
        convolutions = [part for part in module.modules() if isinstance(part, _CONVOLUTIONS)]
        detail: dict[str, Scalar] = {
            "returns": type(result).__name__,
            "parameters": trains,
            "convolutions": len(convolutions),
            "grouped": sum(part.groups > 1 for part in convolutions),
            "channels_last": any(_is_channels_last(part.weight) for part in convolutions),
            "torch_forward": has_torch_forward(module),
            "beyond_linear": next((type(part).__name__ for part in module.modules() if _is_beyond_linear(part)), ""),
        }
        if type(module).__name__ == "DistributedDataParallel":
            detail |= {"data_parallel": True, **wrapped_with(module)}
        through = called_through()
        if through:  # the user's line calls a library, which calls the module
            detail["through"] = through
        site = call_site("forward", detail=detail)
        if site is not None:
            self._forward_sites.setdefault((site.path, site.line, site.col), site)

    def called(self, name: str) -> None:
        """A call that matters as such: `torch.set_num_threads`, ..."""
        self._add(call_site(name))

    def optimizers(self) -> list[torch.optim.Optimizer]:
        """Those alive, in order of construction."""
        return list(self._optimizers)

    def made(self) -> list[Made]:
        """The same, as they were made."""
        return [known.lines for known in self._optimizers.values()]

    def parameters(self) -> list[torch.Tensor]:
        """Of all optimizers, those that train."""
        groups = (group for optimizer in self.optimizers() for group in optimizer.param_groups)
        return [p for group in groups for p in group["params"] if p.requires_grad]

    def device(self) -> torch.device:
        """The model's: the first of a parameter that is not on the host, where there is one."""
        devices = [p.device for p in self.parameters()]
        return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))

    def _add(self, site: CallSite | None) -> None:
        if site is not None:
            self.call_sites.append(site)

    def all_call_sites(self) -> tuple[CallSite, ...]:
        """Constructions first, then forward calls."""
        return (*self.call_sites, *self._forward_sites.values())

    def loader_facts(self, *, sample: bool) -> tuple[LoaderFacts, ...]:
        """`sample`: also compute some items twice; only when the script will not go on after it."""
        return tuple(_sampled(known, sample=sample) for known in self._loaders.values())

    def note_optimizers(self) -> None:
        """Remember them: those of a script's `main()` are gone when it has come to its end."""
        self._last_optimizers = self.optimizer_facts(denormals=False)

    def optimizer_facts(self, *, denormals: bool = True) -> tuple[OptimizerFacts, ...]:
        """All optimizers that are alive; where none is any more, those that were noted last. `denormals`: also look for
        them, at all elements, where they are slow."""
        found = tuple(_optimizer_facts(*one, denormals=denormals) for one in self._optimizers.items())
        return found or self._last_optimizers


def type_name(value: Any) -> str:
    """Full name of a value's type; for torch's own the public one, "torch.optim.Adam"."""
    kind = type(value)
    module = kind.__module__
    if module.startswith("torch.optim."):
        module = "torch.optim"
    return f"{module}.{kind.__qualname__}"


def wrapped_with(module: Any) -> dict[str, Scalar]:
    """How a DistributedDataParallel sends gradients and buffers, by attributes that torch has had since 2.0."""
    buffers = list(module.module.buffers())
    own = [part for part in module.module.modules() if isinstance(part, torch.nn.modules.batchnorm._BatchNorm)]
    keyword = "forward_sync_buffers" if hasattr(module, "forward_sync_buffers") else "broadcast_buffers"
    return {
        "finds_unused": bool(module.find_unused_parameters),
        "hooked": bool(getattr(module, "_comm_hooks", ())),
        # The argument that says so, where there are any.
        "sends_buffers": keyword if buffers and getattr(module, keyword) else "",
        "batch_statistics": any(
            part.track_running_stats and not isinstance(part, torch.nn.SyncBatchNorm) for part in own
        ),
    }


def _loader_facts(number: int, loader: "DataLoader[Any]") -> LoaderFacts:
    return LoaderFacts(
        id=number,
        dataset=type(loader.dataset).__name__,
        num_items=length_of(loader.dataset),
        num_workers=loader.num_workers,
        batch_size=loader.batch_size,
        default_collate=any(loader.collate_fn is known for known in (default_collate, default_convert)),
        pin_memory=bool(loader.pin_memory),
        iterable=isinstance(loader.dataset, IterableDataset),
        persistent_workers=bool(loader.persistent_workers),
        start_method=_start_method(loader),
        num_batches=_num_batches(loader),
        subset_of=_subset_of(loader.dataset),
    )


def _subset_of(dataset: Any) -> str | None:
    below = dataset
    while type(below) is Subset:
        below = below.dataset
    return None if below is dataset else type(below).__name__


def _sampled(loader: _Loader, *, sample: bool) -> LoaderFacts:
    """With what some items of its data set show, where that is still there."""
    dataset = loader.dataset()
    facts = replace(
        loader.facts,
        trained_on=loader.num_trained > 0,
        num_trained=loader.num_trained,
        dataset_anew=loader.datasets.anew,
        loader_anew=loader.loaders.anew,
    )
    if dataset is None:
        return facts
    num_items = length_of(dataset)
    seen = sample_items(dataset, num_items) if sample and num_items else {}
    return replace(facts, num_items=num_items, **seen)


def _through(made: object) -> dict[str, Scalar]:
    """The library that the user's line calls, where it makes nothing of torch's own."""
    through = called_through(made)
    return {"through": through} if through.partition(".")[0] not in ("", "torch") else {}


def _reference(loader: "DataLoader[Any]", *, keep: bool) -> Callable[[], Any]:
    """How to come to its data set, which is kept alive only where that is wanted."""
    dataset, known = loader.dataset, weakref.ref(loader)
    if keep:
        return lambda: dataset
    try:
        return weakref.ref(dataset)
    except TypeError:  # a list, say, has no weak references
        return lambda: getattr(known(), "dataset", None)


def length_of(data: Any) -> int | None:
    """Of a data set or a loader; None for a stream, and where it does not say."""
    try:
        return None if isinstance(data, IterableDataset) else len(data)
    except Exception:  # what is of the script's may say anything here
        return None


def _num_batches(loader: "DataLoader[Any]") -> int | None:
    """None where a sampler of the script's would be asked."""
    kind = type(loader.sampler)
    torchs_own = type(loader.batch_sampler) is BatchSampler and kind.__module__.startswith("torch.utils.data.")
    return length_of(loader) if torchs_own else None


def _start_method(loader: "DataLoader[Any]") -> str | None:
    if not loader.num_workers:
        return None
    context: Any = loader.multiprocessing_context or multiprocessing
    # Asked like that, it does not settle a choice that the script has yet to make.
    return str(context.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0])


def _optimizer_facts(optimizer: torch.optim.Optimizer, known: _Optimizer, *, denormals: bool) -> OptimizerFacts:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    state = [value for values in optimizer.state.values() for value in values.values()]
    tensors = (one.detach() for one in (*params, *state) if isinstance(one, torch.Tensor))
    sparse_in_memory = next((p for p in params if not is_dense(p)), None)
    settings = optimizer.param_groups[0] if optimizer.param_groups else {}
    return OptimizerFacts(
        id=known.number,
        name=type_name(optimizer),
        fused=settings.get("fused", False),
        foreach=settings.get("foreach"),
        has_fused="fused" in optimizer.defaults,
        num_parameters=len(params),
        num_elements=sum(p.numel() for p in params),
        device=accelerator.name(params[0].device) if params else "cpu",
        dtypes=tuple(sorted({str(p.dtype).removeprefix("torch.") for p in params})),
        all_dense=sparse_in_memory is None,
        not_dense=None
        if sparse_in_memory is None
        else f"shape {tuple(sparse_in_memory.shape)}, strides {tuple(sparse_in_memory.stride())}",
        closure=known.closure,
        settings=settings_of(optimizer),
        denormals=denormal_numbers.part_of(tensors) if denormals and denormal_numbers.are_slow() else None,
    )


def _is_beyond_linear(layer: torch.nn.Module) -> bool:
    """A layer of torch's that has weights, or draws random numbers, and is no `Linear`."""
    draws = isinstance(layer, torch.nn.Dropout) and layer.p > 0
    return (
        type(layer).__module__.startswith("torch.nn.")
        and type(layer) is not torch.nn.Linear
        and (draws or bool(layer._parameters or layer._buffers))
    )


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


def is_dense(tensor: torch.Tensor) -> bool:
    """Non-overlapping and dense: some order of its dimensions is contiguous in memory, and only then a new one like it
    has the same."""
    return tensor.layout == torch.strided and torch.empty_like(tensor, device="meta").stride() == tensor.stride()
