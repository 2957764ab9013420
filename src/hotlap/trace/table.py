"""A trace as columns: what ran when, on which thread or stream, for which launch. Seconds from its first event.

Kineto calls the same things by other names from version to version ("Kernel" and "kernel"); here they have one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.errors import UserError
from hotlap.trace import files
from hotlap.trace.parse import NOT_TOLD, Args, Event, events
from hotlap.trace.spans import Spans, union

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
# Kernels of nested templates have names of a thousand letters; no report shows more.
_LONGEST_NAME = 2000
_LONGEST_DEVICE = 100


class Exchange(NamedTuple):
    """Of a collective, and of the operator that calls it; empty where not told."""

    collective: str
    """ "allreduce"."""
    ranks: str
    """All that take part, as they stand in the file: "[0, 1]". Some versions write "[]" for what they do not tell."""


NO_EXCHANGE = Exchange("", "")


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
    given: NDArray[np.int32]
    """Of operators whose shapes were recorded: index into `types`; -1."""
    exchange: NDArray[np.int32]
    """Index into `exchanges`; -1 where not told."""
    names: tuple[str, ...]
    types: tuple[str, ...]
    """Of the first tensor among an operator's arguments, "c10::Half"; empty where not told."""
    exchanges: tuple[Exchange, ...]
    lanes: tuple[tuple[str, str], ...]
    """(process, thread) on the host, (device, stream) on a device."""
    rank: int | None = None
    world_size: int = 1
    devices: dict[str, str] = field(default_factory=dict)
    """Number -> the name that the driver gives."""
    notes: tuple[str, ...] = ()

    def which(self, *kinds: Kind) -> Mask:
        """Rows of these kinds."""
        return np.isin(self.kind, [int(one) for one in kinds])

    def where(self, is_so: Callable[[str], bool]) -> Mask:
        """Rows of whose name this is true; each name is asked once."""
        found: Mask = np.fromiter((is_so(one) for one in self.names), bool, len(self.names))[self.name]
        return found

    def named(self, pattern: str) -> Mask:
        """Rows whose name matches from its beginning on."""
        regex = re.compile(pattern)
        return self.where(lambda name: regex.match(name) is not None)

    def called(self) -> Floats:
        """(N,) when each was launched; where that was not recorded, and on the host, when it began."""
        return np.where(self.launch >= 0, self.start[np.maximum(self.launch, 0)], self.start)

    def exchanged(self, row: int, operator: int) -> Exchange:
        """What a kernel exchanges, by itself or by the operator (-1: not known) that launched it."""
        told = [self.exchange[one] for one in (row, operator) if one >= 0 and self.exchange[one] >= 0]
        return self.exchanges[told[0]] if told else NO_EXCHANGE

    def moments(self, rows: Mask | Ints) -> Spans:
        """In which at least one of these events lasts."""
        return union(self.start[rows], self.end[rows])

    def text(self, row: int) -> str:
        """The name of an event."""
        return self.names[int(self.name[row])]


def read(path: Path) -> Trace:
    """Draws all events of the file, and sorts them.

    Raises:
        UserError: the file cannot be read, or holds no event of torch.profiler.
    """
    header: dict[str, Any] = {}
    columns = _Columns()
    for some in events(files.pieces(path), path.name, header):
        columns.add(some)
    if not columns.parts:
        raise UserError(f"{path.name} holds no event that torch.profiler writes: nothing to tell of.")
    return _table(columns, path.name, header)


class _Index(dict[Any, int]):
    """Key -> its number, in the order in which keys are first met."""

    def __missing__(self, key: object) -> int:
        number = self[key] = len(self)
        return number


class _Columns:
    """Rows as they come, some thousand at a time: each column is made at once, which takes half as long as by rows."""

    def __init__(self) -> None:
        self.parts: list[tuple[NDArray[Any], ...]] = []
        """(start, end, kind, correlation, bytes, name, lane, given, exchange), each (rows,)."""
        self.names, self.types, self.exchanges = _Index(), _Index(), _Index()
        self.lanes = _Index()
        """(on a device, process, thread, device, stream), as they stand in the file."""
        self.odd = 0

    def add(self, some: list[Event]) -> None:
        """Keep those of a kind that is known that have a name, a begin and an end."""
        events = [one for one in some if one.ph == "X" and one.cat in _KINDS]
        # What is not told becomes no number.
        start, length = np.array([one.ts for one in events], float), np.array([one.dur for one in events], float)
        usable = (np.abs(start) <= _LATEST_US) & (length >= 0) & (length <= _LATEST_US)
        usable &= np.array([one.name is not None for one in events], bool)
        if not usable.all():
            self.odd += int(np.sum(~usable))
            start, length = start[usable], length[usable]
            events = [events[row] for row in np.flatnonzero(usable)]
        if not events:
            return
        kind = np.array([_KINDS[str(one.cat)] for one in events], np.int8)
        args = [one.args or _NO_ARGS for one in events]
        lanes = [
            (on_device, one.pid, one.tid, more.device, more.stream) if on_device else (False, one.pid, one.tid)
            for one, more, on_device in zip(events, args, (kind >= _ON_DEVICE).tolist(), strict=True)
        ]
        names, lane = self.names, self.lanes
        columns = (
            [names[one.name[:_LONGEST_NAME]] for one in events],  # type: ignore[index] # `usable` are texts
            [lane[key] for key in lanes],
            [-1 if one.types is NOT_TOLD else self.types[bytes(one.types)] for one in args],
            [-1 if one.ranks is None and one.collective is None else self._exchange(one) for one in args],
        )
        correlation = np.array([_whole(one.correlation) for one in args], np.int64)
        num_bytes = np.array([_whole(one.bytes) for one in args], np.int64)
        integers = (np.array(column, np.int32) for column in columns)
        self.parts.append((start, start + length, kind, correlation, num_bytes, *integers))

    def _exchange(self, args: Args) -> int:
        told = (
            one[:_LONGEST_NAME].removeprefix("[]") if isinstance(one, str) else ""
            for one in (args.collective, args.ranks)
        )
        return self.exchanges[Exchange(*told)]


_NO_ARGS = Args()
_TYPES = msgspec.json.Decoder(list[str])


def _whole(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else -1


def _type_of(written: bytes) -> str:
    """Of the first tensor in such a list: `["float", "float", "Scalar"]`. What cannot be read tells nothing."""
    try:
        names = _TYPES.decode(written)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return next((name for name in names if name and not name.endswith(("Scalar", "List"))), "")


def _lane(key: tuple[Any, ...]) -> tuple[str, str]:
    """(process, thread), or (device, stream); the thread is the stream, where the arguments do not say."""
    on_device, process, thread, *told = key
    if not on_device:
        return str(process), str(thread)
    device, stream = told
    named = str(thread).removeprefix("stream ") if stream is None else stream
    return str(process if device is None else device), str(named)


def _table(columns: _Columns, title: str, header: dict[str, Any]) -> Trace:
    start, end, kind, correlation, num_bytes, name, lane, given, exchange = (
        np.concatenate(parts) for parts in zip(*columns.parts, strict=True)
    )
    columns.parts.clear()
    order = np.lexsort((-end, start))
    base = start[order[0]]
    kind = _by_name(kind, name, tuple(columns.names))[order]
    keys = [_lane(key) for key in columns.lanes]
    lanes = {one: number for number, one in enumerate(dict.fromkeys(keys))}
    numbers = np.array([lanes[one] for one in keys], np.int32)
    ids = _of_job(header)
    odd = f"{columns.odd:,} events without a name, a begin or an end were left out."
    return Trace(
        title=title,
        start=(start[order] - base) * 1e-6,
        end=(end[order] - base) * 1e-6,
        kind=kind,
        name=name[order],
        lane=numbers[lane[order]],
        launch=_launches(kind, correlation[order]),
        num_bytes=num_bytes[order],
        given=given[order],
        exchange=exchange[order],
        names=tuple(columns.names),
        types=tuple(map(_type_of, columns.types)),
        exchanges=tuple(columns.exchanges),
        lanes=tuple(lanes),
        rank=ids[0],
        world_size=ids[1],
        devices=_devices(header),
        notes=(odd,) if columns.odd else (),
    )


def _by_name(kind: NDArray[np.int8], name: NDArray[np.int32], names: tuple[str, ...]) -> NDArray[np.int8]:
    """Kinds by category -> what the name says beyond that."""
    communicates = np.array([_COMMUNICATES.search(one) is not None for one in names])[name]
    annotates = np.array([_ANNOTATED.match(one) is not None for one in names])[name]
    kind = np.where((kind == Kind.KERNEL) & communicates, np.int8(Kind.COMMUNICATION), kind)
    return np.where((kind == Kind.OPERATOR) & annotates, np.int8(Kind.ANNOTATION), kind)


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


def _of_job(header: dict[str, Any]) -> tuple[int | None, int]:
    info = header.get("distributedInfo")
    if not isinstance(info, dict):
        return None, 1
    rank, size = _whole(info.get("rank")), _whole(info.get("world_size"))
    return (rank if rank >= 0 else None), max(1, size)


def _devices(header: dict[str, Any]) -> dict[str, str]:
    """Number -> name, by the driver."""
    listed = header.get("deviceProperties")
    known = (one for one in listed if isinstance(one, dict) and one.get("name")) if isinstance(listed, list) else ()
    return {str(one.get("id")): str(one["name"])[:_LONGEST_DEVICE] for one in known}
