"""Batches whose copy to the device has begun before the script asks for it.

A batch is handed out as the CPU tensor that it is, in pinned memory, with a copy under way on a stream of its own. If
the script's next use of it is `.to(device)` or `.cuda()`, it is given that copy, and its stream waits for it; after any
other use the copy is forgotten, for the script may have changed the tensor.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, cast, final

import torch

# Below this a copy takes as long as starting it (10 us, as a kernel does): nothing to overlap.
LEAST_BYTES = 64 << 10

# `Tensor.to` with nothing but these moves it, and does no more.
_MOVING = frozenset({"device", "non_blocking"})


class Lane(ABC):
    """The way to one device."""

    @abstractmethod
    def leads_to(self, device: torch.device) -> bool:
        """True if that is where copies go."""

    @abstractmethod
    def send(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin a copy; calling what is returned gives it, and lets the current stream wait for it."""


@final
class CudaLane(Lane):
    """To a CUDA device, on a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = with_index(device)
        self._stream: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def leads_to(self, device: torch.device) -> bool:
        """True for this very device; without an index, for the current one."""
        return device.type == "cuda" and with_index(device) == self._device

    def send(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Pinned memory -> device. The allocator of pinned memory keeps it until the copy is done."""
        with torch.cuda.stream(self._stream):
            copy = tensor.to(self._device, non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(self._stream)

        def arrive() -> torch.Tensor:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(done)
            copy.record_stream(current)  # its memory belongs to the side stream, and must not go back to it too soon
            return copy

        return arrive


def with_index(device: torch.device) -> torch.device:
    """This CUDA device; without an index, the current one."""
    return torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)


def lane_to(device: torch.device) -> Lane | None:
    """A way there, or None."""
    return CudaLane(device) if device.type == "cuda" and torch.cuda.is_available() else None


@final
class Road:
    """Learns from the script where its batches go, and sends the next ones there."""

    def __init__(self, make_lane: Callable[[torch.device], Lane | None] = lane_to) -> None:
        self._make_lane = make_lane
        self._lane: Lane | None = None
        self._moves = 0
        self.num_arrived = 0
        """Copies that the script was given."""

    def moved(self, device: torch.device) -> None:
        """The script moved a batch there itself."""
        if self._lane is None or not self._lane.leads_to(device):
            self._lane = self._make_lane(device)

    def send(self, data: Any) -> Any:
        """A batch with its tensors on their way; the same structure."""
        if type(data) is torch.Tensor:
            return self._send_tensor(data)
        if isinstance(data, tuple) and hasattr(data, "_fields"):
            return type(data)(*map(self.send, data))
        if type(data) in (list, tuple):
            return type(data)(map(self.send, data))
        if type(data) is dict:
            return {key: self.send(value) for key, value in data.items()}
        return data

    def arrive(self, tensor: "Travelling", device: torch.device) -> torch.Tensor | None:
        """The copy, if it went there."""
        arrive, lane = tensor.copy_under_way, tensor.lane
        tensor.copy_under_way = None  # a script that moves a batch twice gets two copies
        if arrive is None or lane is None or not lane.leads_to(device):
            self.moved(device)
            return None
        self.num_arrived += 1
        return arrive()

    def _send_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type != "cpu" or tensor.requires_grad or tensor.nbytes < LEAST_BYTES:
            return tensor
        travelling = cast(Travelling, cast(Any, tensor).as_subclass(Travelling))
        travelling.road, travelling.lane = self, self._lane
        travelling.copy_under_way = None if self._lane is None else self._lane.send(tensor)
        return travelling


class Travelling(torch.Tensor):
    """A CPU tensor that knows of a copy on its way. Whatever is computed with it is an ordinary tensor."""

    road: Road
    lane: Lane | None
    copy_under_way: Callable[[], torch.Tensor] | None

    # Uses that cannot change it.
    _LOOKS: ClassVar[frozenset[Any]] = frozenset(
        {
            torch.Tensor.size, torch.Tensor.dim, torch.Tensor.__len__, torch.Tensor.numel, torch.Tensor.is_pinned,
            torch.Tensor.stride, torch.Tensor.is_contiguous, torch.Tensor.element_size,
            *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "is_cuda")),
        }
    )  # fmt: skip

    def _hotlap_peek(self) -> torch.Tensor:
        """The tensor, without this being a use of it."""
        disabled: Any = torch._C.DisableTorchFunctionSubclass
        with disabled():
            return self.as_subclass(torch.Tensor)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Give the copy to whoever moves the tensor; forget it for everybody else."""
        kwargs = kwargs or {}
        disabled: Any = torch._C.DisableTorchFunctionSubclass
        with disabled():
            first = args[0] if args else None
            if type(first) is Travelling and func in (torch._C.TensorBase.to, torch._C.TensorBase.cuda):
                device = target_of(func, args[1:], kwargs)
                arrived = first.road.arrive(first, device) if device is not None else None
                if arrived is not None:
                    return arrived
            if func not in cls._LOOKS:
                for value in _travelling(args, kwargs):
                    value.copy_under_way = None
            return func(*args, **kwargs)


def target_of(func: Any, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Where a call moves the tensor, if it does nothing else."""
    # `cuda` takes non_blocking by position as well, `to` a dtype.
    to_cuda = func is torch._C.TensorBase.cuda
    plain = len(rest) <= 1 or (to_cuda and len(rest) == 2 and isinstance(rest[1], bool))
    if not plain or not _MOVING.issuperset(kwargs):
        return None
    where = rest[0] if rest else kwargs.get("device", "cuda" if to_cuda else None)
    if isinstance(where, bool) or not isinstance(where, str | int | torch.device):
        return None
    return torch.device("cuda", where) if isinstance(where, int) else torch.device(where)


def _travelling(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Travelling]:
    found, waiting = [], [*args, *kwargs.values()]
    while waiting:
        value = waiting.pop()
        if type(value) is Travelling:
            found.append(value)
        elif isinstance(value, list | tuple):
            waiting += value
    return found
