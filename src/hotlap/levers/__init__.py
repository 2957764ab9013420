"""One file a lever: when it applies, what it can save, how it is switched, how it reads as source."""

from collections.abc import Iterable, Mapping
from dataclasses import fields

import msgspec

from hotlap.errors import UserError
from hotlap.levers.affinity import Affinity
from hotlap.levers.allocator import Allocator
from hotlap.levers.batch_size import BatchSize
from hotlap.levers.batched_fetch import BatchedFetch
from hotlap.levers.batched_windows import BatchedWindows
from hotlap.levers.bf16_autocast import Bf16Autocast
from hotlap.levers.cached_dataset import CachedDataset
from hotlap.levers.cached_prefix import CachedPrefix
from hotlap.levers.channels_last import ChannelsLast
from hotlap.levers.compile import Compile
from hotlap.levers.create_on_device import CreateOnDevice
from hotlap.levers.cuda_graphs import CudaGraphs
from hotlap.levers.cudnn_benchmark import CudnnBenchmark
from hotlap.levers.deferred_scalars import DeferredScalars
from hotlap.levers.device import Device
from hotlap.levers.device_resident import DeviceResident
from hotlap.levers.expandable_segments import ExpandableSegments
from hotlap.levers.flush_denormals import FlushDenormals
from hotlap.levers.fp16_autocast import Fp16Autocast
from hotlap.levers.fused_optimizer import FusedOptimizer
from hotlap.levers.huge_pages import HugePages
from hotlap.levers.late_transform import LateTransform
from hotlap.levers.lever import Lever, Numerics, Patch, Scope
from hotlap.levers.native_ode import NativeOde
from hotlap.levers.native_step import NativeStep
from hotlap.levers.needed_gradients import NeededGradients
from hotlap.levers.no_debug import NoDebug
from hotlap.levers.no_epoch_gap import NoEpochGap
from hotlap.levers.no_grad_validation import NoGradValidation
from hotlap.levers.pad_shapes import PadShapes
from hotlap.levers.padded_recurrent import PaddedRecurrent
from hotlap.levers.pin_and_overlap import PinAndOverlap
from hotlap.levers.preallocate import Preallocate
from hotlap.levers.random_on_device import RandomOnDevice
from hotlap.levers.sdpa import Sdpa
from hotlap.levers.tf32 import Tf32
from hotlap.levers.threads import Threads
from hotlap.levers.workers import Workers
from hotlap.levers.zero_grad_none import ZeroGradNone
from hotlap.record import LeverSpec, Run
from hotlap.source import Edit

__all__ = [
    "ALL",
    "RECIPES",
    "BatchSize",
    "BatchedFetch",
    "CachedDataset",
    "Lever",
    "Numerics",
    "Patch",
    "Scope",
    "by_name",
    "edits_of",
    "environment_of",
    "from_spec",
    "started_with",
]

ALL: tuple[type[Lever], ...] = (
    BatchedFetch,
    CachedDataset,
    CachedPrefix,
    LateTransform,
    NoEpochGap,
    Workers,
    BatchedWindows,
    PinAndOverlap,
    DeviceResident,
    PadShapes,
    FusedOptimizer,
    Bf16Autocast,
    Fp16Autocast,
    HugePages,
    Threads,
    NativeStep,
    NativeOde,
    PaddedRecurrent,
    NeededGradients,
    Compile,
    CudaGraphs,
    Sdpa,
    DeferredScalars,
    CreateOnDevice,
    RandomOnDevice,
    Device,
    Affinity,
    NoDebug,
    FlushDenormals,
    Allocator,
    ChannelsLast,
    NoGradValidation,
    ZeroGradNone,
    Tf32,
    CudnnBenchmark,
    ExpandableSegments,
    Preallocate,
)


RECIPES: tuple[type[Lever], ...] = (BatchSize,)
"""Those that change the training itself; tried on request only (`hotlap tune --allow`)."""


def edits_of(stack: Iterable[LeverSpec], run: Run) -> list[Edit]:
    """The edits of several levers, in the order of `ALL`: the source is the same in whatever order they were accepted.

    Raises:
        UserError: a lever or a setting is unknown; a file is missing or changed since.
    """
    order = [kind.name for kind in (*ALL, *RECIPES)]
    chosen = sorted(map(from_spec, stack), key=lambda lever: order.index(lever.name))
    return [edit for lever in chosen for edit in lever.edits(run)]


def started_with(stack: Iterable[LeverSpec]) -> tuple[LeverSpec, ...]:
    """Those of the levers that are set where the script is started, and not in its source."""
    return tuple(spec for spec in stack if from_spec(spec).by_environment)


def environment_of(stack: Iterable[LeverSpec], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that the levers want in a process which would otherwise be started with `environ`."""
    wanted: dict[str, str] = {}
    for spec in stack:
        wanted |= from_spec(spec).environment({**environ, **wanted})
    return wanted


def by_name(name: str) -> type[Lever]:
    """The lever of that name.

    Raises:
        UserError: there is none.
    """
    for kind in (*ALL, *RECIPES):
        if kind.name == name:
            return kind
    raise UserError(f"There is no lever {name!r}. Known: {', '.join(kind.name for kind in ALL)}.")


def from_spec(spec: LeverSpec) -> Lever:
    """`{"name": "threads", "count": 1}` -> the lever with its settings.

    Raises:
        UserError: the name or a setting is unknown.
    """
    kind = by_name(str(spec.get("name")))
    settings = {key: value for key, value in spec.items() if key != "name"}
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # every concrete lever is a dataclass
    unknown = sorted(set(settings) - known)
    if unknown:
        raise UserError(f"The lever {kind.name} has no setting {unknown[0]!r}. Known: {', '.join(sorted(known))}.")
    try:
        # Checked strictly: settings come out of saved files as well, and end up in the user's source.
        return msgspec.convert(settings, kind)
    except msgspec.ValidationError as error:
        raise UserError(f"A setting of the lever {kind.name} cannot be used: {error}.") from None
