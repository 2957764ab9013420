"""A batch's tensor that is not made as long as nobody looks, for it may be wanted on another device only.

The script holds what it knows: a CPU tensor of that shape. If its next use of it is `.to(device)` or `.cuda()`, it is
made over there, from less than would have to travel; after any other use it is an ordinary tensor.
"""

from collections.abc import Callable
from typing import Any, ClassVar, cast, final

import torch
from torch.utils._pytree import tree_map

# Batches that may be used otherwise (printed, looked at) before all are made at once, here.
MOST_LOOKS = 3

# `Tensor.to` with nothing but these moves it, and does no more.
_MOVING = frozenset({"device", "non_blocking"})

# A patched `Tensor.to` calls these in the end.
_TO: Any = torch._C.TensorBase.to
_CUDA: Any = torch._C.TensorBase.cuda
_PIN: Any = torch._C.TensorBase.pin_memory


@final
class LazyTensor(torch.Tensor):
    """A tensor of (B, ...) without memory of its own until it is used."""

    make: Callable[[], torch.Tensor]
    arrive: Callable[[torch.device, bool], torch.Tensor]
    """(device, whether it may still be on its way) -> the tensor over there."""
    looked_at: Callable[[], None]
    """Told when the script used the tensor here."""
    made: torch.Tensor | None

    # Uses that need no numbers and cannot change them.
    _LOOKS: ClassVar[frozenset[Any]] = frozenset(
        {
            torch.Tensor.size, torch.Tensor.dim, torch.Tensor.__len__, torch.Tensor.numel,
            torch.Tensor.is_floating_point, torch.Tensor.element_size,
            *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "is_cpu", "is_cuda",
                                                               "is_meta", "layout", "requires_grad")),
        }
    )  # fmt: skip

    def _hotlap_peek(self) -> torch.Tensor:
        """The tensor, without this being a use of it."""
        return self.make() if self.made is None else self.made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Make it over there for a script that moves it, here for everybody else."""
        kwargs = kwargs or {}
        disabled: Any = torch._C.DisableTorchFunctionSubclass
        with disabled():
            if func in cls._LOOKS:
                return func(*args, **kwargs)
            first = args[0] if args else None
            if type(first) is LazyTensor and first.made is None and func in (_TO, _CUDA):
                device = _target_of(func, args[1:], kwargs)
                if device is not None:
                    waits_not = bool(kwargs.get("non_blocking", args[2] if len(args) == 3 else False))
                    return first.arrive(device, waits_not)
            if type(first) is LazyTensor and first.made is None and func is _PIN:
                return _pinned(first)
            return func(*tree_map(_number, args), **tree_map(_number, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # its annotation lacks the first argument
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """As above, for what asks torch's dispatcher itself."""
        return func(*tree_map(_number, args), **tree_map(_number, kwargs or {}))


def lazy_tensor(
    shape: tuple[int, ...],
    *,
    dtype: torch.dtype,
    strides: tuple[int, ...],
    make: Callable[[], torch.Tensor],
    arrive: Callable[[torch.device, bool], torch.Tensor],
    looked_at: Callable[[], None],
) -> LazyTensor:
    """A tensor like this; `make` makes it here, `arrive` over there."""
    wrapper: Any = torch.Tensor._make_wrapper_subclass
    promised = cast(LazyTensor, wrapper(LazyTensor, shape, strides=strides, dtype=dtype, device="cpu"))
    promised.make, promised.arrive, promised.looked_at, promised.made = make, arrive, looked_at, None
    return promised


def _target_of(func: Any, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Where a call moves the tensor, if it does nothing else."""
    # `cuda` takes non_blocking by position as well, `to` a dtype.
    to_cuda = func is _CUDA
    plain = len(rest) <= 1 or (to_cuda and len(rest) == 2 and isinstance(rest[1], bool))
    if not plain or not _MOVING.issuperset(kwargs):
        return None
    where = rest[0] if rest else kwargs.get("device", "cuda" if to_cuda else None)
    if isinstance(where, bool) or not isinstance(where, str | int | torch.device):
        return None
    return torch.device("cuda", where) if isinstance(where, int) else torch.device(where)


def _pinned(tensor: LazyTensor) -> LazyTensor:
    """What a loader with `pin_memory` hands out: should it be made here, it is made into pinned memory."""
    make = tensor.make
    return lazy_tensor(
        tuple(tensor.shape),
        dtype=tensor.dtype,
        strides=tensor.stride(),
        make=lambda: make().pin_memory(),
        arrive=tensor.arrive,
        looked_at=tensor.looked_at,
    )


def _number(value: Any) -> Any:
    if type(value) is not LazyTensor:
        return value
    if value.made is None:
        value.looked_at()
        value.made = value.make()
    return value.made
