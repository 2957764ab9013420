"""A torch dispatch mode of ours, put on and taken off between steps, in whatever order the script nests its own."""

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch.utils import _python_dispatch as dispatch
from torch.utils._python_dispatch import TorchDispatchMode

Saw = Callable[[Any, Any, Any, Any, float], None]
"""Is given (func, args, kwargs, result, seconds): `func(*args, **kwargs)` gave that and took the host so long."""


class ObserverMode(TorchDispatchMode):  # type: ignore[no-untyped-call] # torch has no types for its modes
    """Sees every operator that reaches a kernel, and changes nothing. What torch.compile made runs as it is."""

    # Else torch refuses higher-order operators (flex_attention, cond) while the mode is on.
    supports_higher_order_operators = True

    def __init__(self, saw: Saw = lambda *_: None) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as above
        self._saw = saw
        self.failures = 0
        """Operators that could not be looked at."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Else compiled code would run in eager mode while this is on."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        begun = perf_counter()
        result = func(*args, **kwargs)
        seconds = perf_counter() - begun
        # Our looking must never become the script's error.
        try:
            self._saw(func, args, kwargs, result, seconds)
        except Exception:
            self.failures += 1
        return result


def name_of(func: Any) -> str:
    """ "aten::mm", without the overload; higher-order operators (cond, flex_attention) have no schema."""
    schema = getattr(func, "_schema", None)
    return schema.name if schema is not None else f"higher_order::{func}"


def put_on(mode: ObserverMode) -> None:
    """From now on `mode` sees every operator of this thread, and of its backward passes."""
    if dispatch._get_current_dispatch_mode_stack():
        # It could leave before ours, and would take ours off instead of itself.
        raise RuntimeError("the script has a dispatch mode of its own")
    if "torch.nn.attention.flex_attention" in sys.modules and not hasattr(
        TorchDispatchMode, "supports_higher_order_operators"
    ):
        raise RuntimeError("this version of torch allows no dispatch mode around flex_attention")
    mode.__enter__()  # type: ignore[no-untyped-call] # as above


def take_off(mode: ObserverMode) -> None:
    """Also from under modes that the script put on since; nothing happens where it is not on."""
    if not any(other is mode for other in dispatch._get_current_dispatch_mode_stack()):
        return
    above = []
    while dispatch._get_current_dispatch_mode_stack()[-1] is not mode:
        above.append(dispatch._pop_mode())
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call] # as above
    for other in reversed(above):
        dispatch._push_mode(other)
