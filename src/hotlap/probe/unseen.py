"""Keeps torch.compile from compiling the probe.

Below a compiled function, wherever a graph breaks, Dynamo compiles each Python frame that runs: those of our hooks as
well, which costs seconds, fills its caches and prints warnings about them.
"""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

# What runs in the hooks. (A user may well compile what hotlap.data and hotlap.small hold.)
_PROBES = ("hotlap.probe.", "hotlap.record.", "hotlap.levers.")


def by_dynamo() -> None:
    """Dynamo has just been imported: it shall run all our frames as they are. (Inlining them it may, and must.)"""
    # Not there, or changed: the script is measured all the same, at a higher cost.
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from torch._dynamo.eval_frame import skip_code

        for code in _all_code():
            skip_code(code)


def from_here_on() -> None:
    """Nothing that this thread runs is compiled any more: the script has run for the last time."""
    if "torch._dynamo" in sys.modules:
        with contextlib.suppress(ImportError, AttributeError, TypeError):
            from torch._C._dynamo.eval_frame import set_eval_frame

            set_eval_frame(None)


def _all_code() -> set[CodeType]:
    found: set[CodeType] = set()
    for name, module in list(sys.modules.items()):
        if name.startswith(_PROBES):
            for function in _functions(module, name):
                _add(function.__code__, found)
    return found


def _functions(owner: Any, module: str) -> Iterator[FunctionType]:
    for value in vars(owner).values():
        if isinstance(value, property):
            yield from (part for part in (value.fget, value.fset) if isinstance(part, FunctionType))
        if getattr(value, "__module__", None) != module:
            continue
        plain: Callable[..., Any] = inspect.unwrap(value.__func__) if hasattr(value, "__func__") else value
        if isinstance(plain, FunctionType):
            yield plain
        elif isinstance(plain, type):
            yield from _functions(plain, module)


def _add(code: CodeType, found: set[CodeType]) -> None:
    """With the functions that are made within it: our wrappers are such."""
    found.add(code)
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant not in found:
            _add(constant, found)
