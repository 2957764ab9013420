"""A trace as columns: what ran when, on which thread or stream, for which launch. Seconds from its first event.

Kineto calls the same things by other names from version to version ("Kernel" and "kernel"); here they have one.
"""

import math
import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.errors import UserError
from hotlap.trace.files import TraceFile
from hotlap.trace.parse import Args, Event, events

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Kind(IntEnum):
    """What an event is."""

    OPERATOR = 0
    """torch's own, on the host."""
    ANNOTATION = 1
    """`record_function`, on the host: loaders, optimizers, steps."""
    RUNTIME = 2
    """A call of CUDA or HIP, on the host: launches, copies, waits."""
    PYTHON = 3
    """A function of Python, where stacks were recorded."""
    KERNEL = 4
    COMMUNICATION = 5
    """A kernel of NCCL or RCCL."""
    COPY = 6
    MEMSET = 7


ON_DEVICE = (Kind.KERNEL, Kind.COMMUNICATION, Kind.COPY, Kind.MEMSET)

_KINDS = {
    "cpu_op": Kind.OPERATOR, "Operator": Kind.OPERATOR,
    "user_annotation": Kind.ANNOTATION,
    "cuda_runtime": Kind.RUNTIME, "cuda_driver": Kind.RUNTIME, "Runtime": Kind.RUNTIME, "hip_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME, "privateuse1_runtime": Kind.RUNTIME, "privateuse1_driver": Kind.RUNTIME,
    "python_function": Kind.PYTHON,
    "kernel": Kind.KERNEL, "Kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY, "Memcpy": Kind.COPY,
    "gpu_memset": Kind.MEMSET, "Memset": Kind.MEMSET,
}  # fmt: skip
_ON_DEVICE = int(Kind.KERNEL)
# Versions before 1.10 recorded annotations as operators.
_ANNOTATED = re.compile(r"^(?:ProfilerStep#|Optimizer\.|enumerate\(|## )")
_COMMUNICATES = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)
_LATEST_US = 4e18


class Written(NamedTuple):
    """Arguments of an operator, as JSON; empty where not told."""

    dims: bytes
    """A list of sizes each, `[[32, 3, 224, 224], [64, 3, 7, 7], []]`; `[]` for what is no tensor."""
    types: bytes
    values: bytes
    """Of numbers and lists of numbers."""


@dataclass(frozen=True, slots=True)
class Trace:
    """(N,) columns, in the order of begins; of two that begin together the longer first."""

    title: str
    start: Floats
    end: Floats
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    """Index into `names`."""
    lane: NDArray[np.int32]
    """Index into `lanes`."""
    launch: Ints
    """Row of the runtime call that launched it, for events on a device; -1 where the trace does not hold it."""
    num_bytes: Ints
    """Of copies; -1 where not told."""
    stack: NDArray[np.int32]
    """Of operators, in versions that wrote it there: index into `stacks`; -1."""
    inputs: NDArray[np.int32]
    """Of operators whose shapes were recorded: index into `arguments`; -1."""
    names: tuple[str, ...]
    stacks: tuple[str, ...]
    arguments: tuple[Written, ...]
    lanes: tuple[tuple[str, str], ...]
    """(process, thread) on the host, (device, stream) on a device."""
    began_s: float
    """Where the times begin, on the clock of the machine: ranks of one job share it, as far as their clocks agree."""
    rank: int | None = None
    world_size: int = 1
    devices: dict[str, str] = field(default_factory=dict)
    """Number -> the name that the driver gives."""
    notes: tuple[str, ...] = ()

    def which(self, *kinds: Kind) -> Mask:
        """Rows of these kinds."""
        return np.isin(self.kind, [int(one) for one in kinds])

    def named(self, pattern: str) -> Mask:
        """Rows whose name matches from its beginning on."""
        regex = re.compile(pattern)
        matching = np.fromiter((regex.match(one) is not None for one in self.names), bool, len(self.names))
        found: Mask = matching[self.name]
        return found

    def text(self, row: int) -> str:
        """The name of an event."""
        return self.names[int(self.name[row])]


def read(file: TraceFile) -> Trace:
    """Draws all events of the file, and sorts them.

    Raises:
        UserError: the file cannot be read, or holds no event of torch.profiler.
    """
    header: dict[str, Any] = {}
    columns = _Columns()
    for some in events(file.pieces(), file.title, header):
        for event in some:
            columns.add(event)
    if not columns.start:
        raise UserError(f"{file.title} holds no event that torch.profiler writes: nothing to tell of.")
    return _table(columns, file.title, header)


class _Columns:
    """Rows as they come."""

    def __init__(self) -> None:
        self.start, self.end = array("d"), array("d")
        self.kind, self.name, self.lane = array("b"), array("i"), array("i")
        self.stack, self.inputs = array("i"), array("i")
        self.correlation, self.num_bytes = array("q"), array("q")
        self.names: dict[str, int] = {}
        self.kinds: list[dict[Kind, Kind]] = []
        """(names,) what an event of this name is, where its category says something else."""
        self.stacks: dict[str, int] = {}
        self.arguments: dict[Written, int] = {}
        self.lanes: dict[tuple[str, str], int] = {}
        self.odd = 0

    def add(self, event: Event) -> None:
        """Keep it, if it is of a kind that is known and has a begin and an end."""
        kind = _KINDS.get(event.cat) if event.ph == "X" and isinstance(event.cat, str) else None
        if kind is None or not isinstance(event.name, str):
            return
        start, length = _number(event.ts), _number(event.dur)
        if start is None or length is None or length < 0 or abs(start) > _LATEST_US:
            self.odd += 1
            return
        args = event.args or _NO_ARGS
        lane = str(event.pid), str(event.tid)
        if kind >= _ON_DEVICE:
            lane = _device(event, args)
        name = self.names.get(event.name)
        if name is None:
            name = self.names[event.name] = len(self.names)
            self.kinds.append(_by_name(event.name))
        self.start.append(start)
        self.end.append(start + length)
        self.kind.append(self.kinds[name].get(kind, kind))
        self.name.append(name)
        self.lane.append(self.lanes.setdefault(lane, len(self.lanes)))
        self.correlation.append(_whole(args.correlation))
        self.num_bytes.append(_whole(args.bytes))
        written = isinstance(args.stack, str) and args.stack
        self.stack.append(self.stacks.setdefault(str(args.stack), len(self.stacks)) if written else -1)
        self.inputs.append(self._argument(args) if bytes(args.dims) else -1)

    def _argument(self, args: Args) -> int:
        told = Written(bytes(args.dims), bytes(args.types), bytes(args.values))
        return self.arguments.setdefault(told, len(self.arguments))


def _by_name(name: str) -> dict[Kind, Kind]:
    """What the name says beyond the category."""
    found = {}
    if _COMMUNICATES.search(name):
        found[Kind.KERNEL] = Kind.COMMUNICATION
    if _ANNOTATED.match(name):
        found[Kind.OPERATOR] = Kind.ANNOTATION
    return found


_NO_ARGS = Args()


def _number(value: object) -> float | None:
    """A time as it may stand there: a number, or a text of one."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if usable and math.isfinite(value) else None  # type: ignore[arg-type]


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else -1


def _device(event: Event, args: Args) -> tuple[str, str]:
    """(device, stream); the thread is the stream, where the arguments do not say."""
    device = event.pid if args.device is None else args.device
    stream = str(event.tid).removeprefix("stream ") if args.stream is None else args.stream
    return str(device), str(stream)


def _table(columns: _Columns, title: str, header: dict[str, Any]) -> Trace:
    start, end = np.frombuffer(columns.start), np.frombuffer(columns.end)
    order = np.lexsort((-end, start))
    base = start[order[0]]
    kind = np.frombuffer(columns.kind, np.int8)[order]
    ids = _of_job(header)
    return Trace(
        title=title,
        start=(start[order] - base) * 1e-6,
        end=(end[order] - base) * 1e-6,
        kind=kind,
        name=np.frombuffer(columns.name, np.int32)[order],
        lane=np.frombuffer(columns.lane, np.int32)[order],
        launch=_launches(kind, np.frombuffer(columns.correlation, np.int64)[order]),
        num_bytes=np.frombuffer(columns.num_bytes, np.int64)[order],
        stack=np.frombuffer(columns.stack, np.int32)[order],
        inputs=np.frombuffer(columns.inputs, np.int32)[order],
        names=tuple(columns.names),
        stacks=tuple(columns.stacks),
        arguments=tuple(columns.arguments),
        lanes=tuple(columns.lanes),
        began_s=base * 1e-6 + _base_s(header),
        rank=ids[0],
        world_size=ids[1],
        devices=_devices(header),
        notes=(f"{columns.odd:,} events without a begin or an end were left out.",) if columns.odd else (),
    )


def _launches(kind: NDArray[np.int8], correlation: Ints) -> Ints:
    """Row of the call with the same correlation, for each event on a device."""
    found = np.full(len(kind), -1, np.int64)
    calls = np.flatnonzero((kind == Kind.RUNTIME) & (correlation >= 0))
    run = np.flatnonzero((kind >= Kind.KERNEL) & (correlation >= 0))
    if len(calls) and len(run):
        calls = calls[np.argsort(correlation[calls], kind="stable")]
        at = np.minimum(np.searchsorted(correlation[calls], correlation[run]), len(calls) - 1)
        fits = correlation[calls[at]] == correlation[run]
        found[run[fits]] = calls[at[fits]]
    return found


def _base_s(header: dict[str, Any]) -> float:
    """From torch 2.4 on times count from a point that stands beside the events, in nanoseconds."""
    base = _number(header.get("baseTimeNanoseconds"))
    return base * 1e-9 if base is not None else 0.0


def _of_job(header: dict[str, Any]) -> tuple[int | None, int]:
    info = header.get("distributedInfo")
    if not isinstance(info, dict):
        return None, 1
    rank, size = _whole(info.get("rank")), _whole(info.get("world_size"))
    return (rank if rank >= 0 else None), max(1, size)


def _devices(header: dict[str, Any]) -> dict[str, str]:
    listed = header.get("deviceProperties")
    rows: Iterable[Any] = listed if isinstance(listed, list) else ()
    return {str(one.get("id")): str(one.get("name")) for one in rows if isinstance(one, dict) and one.get("name")}
