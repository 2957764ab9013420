"""A batch's numbers that are bytes as long as nobody looks: on the way to a GPU they travel as that.

The script holds what it knows: a CPU tensor of 32-bit numbers, of that shape. If its next use of it is `.to(device)` or
`.cuda()`, the bytes are copied there, a quarter of the traffic, and become numbers on the device. After any other use
it is an ordinary tensor of numbers.
"""

from collections.abc import Callable
from typing import Any, ClassVar, cast, final

import torch
from torch.utils._pytree import tree_map

from hotlap.data.tails import Tail, all_bytes
from hotlap.data.travel import target_of

# Batches that may be used otherwise (printed, looked at) before all are made into numbers at once, here.
MOST_LOOKS = 3

# A patched `Tensor.to` calls these in the end.
_TO: Any = torch._C.TensorBase.to
_CUDA: Any = torch._C.TensorBase.cuda


@final
class ByteRoad:
    """Whether batches may travel as bytes, and whether numbers made over there are the same."""

    def __init__(self, *, leads_to: Callable[[torch.device], bool] = lambda device: device.type == "cuda") -> None:
        self._leads_to = leads_to
        self._same: dict[tuple[Tail, int, torch.device], bool] = {}
        self._num_looks = 0
        self.num_sent = 0
        """Tensors that travelled as bytes."""

    @property
    def open(self) -> bool:
        """False after the script used too many batches here."""
        return self._num_looks < MOST_LOOKS

    def looked_at(self) -> None:
        """The script used a batch here."""
        self._num_looks += 1

    def arrive(self, tensor: "Unmade", device: torch.device, *, non_blocking: bool) -> torch.Tensor | None:
        """The numbers over there; None if the bytes cannot go there, or would become others."""
        if not self._leads_to(device) or not self._is_same(tensor, device):
            return None
        self.num_sent += 1
        there = tensor.bytes_.to(device, non_blocking=non_blocking)
        out = torch.empty(tensor.shape, dtype=torch.float32, device=device)
        return tensor.tail.apply(there, out, channels_last=tensor.channels_last)

    def _is_same(self, tensor: "Unmade", device: torch.device) -> bool:
        """True if that device makes the same 32 bits of each of the 256 bytes, channel by channel. Tried once."""
        case = (tensor.tail, tensor.shape[1], device)
        if case not in self._same:
            every = all_bytes(tensor.shape[1])
            results = [
                tensor.tail.apply(every.to(place), torch.empty(every.shape, device=place), channels_last=False)
                for place in (torch.device("cpu"), device)
            ]
            here, there = (result.cpu().view(torch.int32) for result in results)
            self._same[case] = torch.equal(here, there)
        return self._same[case]


@final
class Unmade(torch.Tensor):
    """(B, C, H, W) numbers that are bytes still. Without memory of its own until it is used."""

    bytes_: torch.Tensor
    tail: Tail
    channels_last: bool
    road: ByteRoad
    make: Callable[[], torch.Tensor]
    made: torch.Tensor | None

    # Uses that need no numbers and cannot change them.
    _LOOKS: ClassVar[frozenset[Any]] = frozenset(
        {
            torch.Tensor.size, torch.Tensor.dim, torch.Tensor.__len__, torch.Tensor.numel,
            torch.Tensor.is_floating_point, torch.Tensor.element_size,
            *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "is_cuda", "layout",
                                                               "requires_grad")),
        }
    )  # fmt: skip

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Send the bytes where the script moves the numbers; give the numbers to everybody else."""
        kwargs = kwargs or {}
        disabled: Any = torch._C.DisableTorchFunctionSubclass
        with disabled():
            if func in cls._LOOKS:
                return func(*args, **kwargs)
            first = args[0] if args else None
            if type(first) is Unmade and first.made is None and func in (_TO, _CUDA):
                arrived = _arrived(first, func, args[1:], kwargs)
                if arrived is not None:
                    return arrived
            return func(*tree_map(_number, args), **tree_map(_number, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # its annotation lacks the first argument
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """As above, for what asks torch's dispatcher itself."""
        return func(*tree_map(_number, args), **tree_map(_number, kwargs or {}))


def unmade(
    bytes_: torch.Tensor,
    shape: tuple[int, ...],
    *,
    tail: Tail,
    channels_last: bool,
    road: ByteRoad,
    make: Callable[[], torch.Tensor],
) -> Unmade:
    """A tensor of this shape that stands for the numbers; `make` makes them here."""
    wrapper: Any = torch.Tensor._make_wrapper_subclass
    made = cast(Unmade, wrapper(Unmade, shape, dtype=torch.float32, device="cpu"))
    made.bytes_, made.tail, made.channels_last = bytes_, tail, channels_last
    made.road, made.make, made.made = road, make, None
    return made


def _arrived(tensor: Unmade, func: Any, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    device = target_of(func, rest, kwargs)
    if device is None:
        return None
    waits_not = bool(kwargs.get("non_blocking", rest[1] if len(rest) == 2 else False))
    return tensor.road.arrive(tensor, device, non_blocking=waits_not)


def _number(value: Any) -> Any:
    if type(value) is not Unmade:
        return value
    if value.made is None:
        value.road.looked_at()
        value.made = value.make()
    return value.made
