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

from hotlap.levers import Patch
from hotlap.probe.imports import after_import
from hotlap.probe.sites import outwards

# What runs in the hooks. (A user may well compile what hotlap.data and hotlap.small hold.)
_PROBES = ("hotlap.probe.", "hotlap.record.", "hotlap.levers.")


# Around each compiled function Dynamo puts one of this file.
_CALLS_COMPILED = "torch/_dynamo/eval_frame.py"

# Hooks ask first of all whether they are being compiled, for within a compiled function there must be nothing that
# Dynamo cannot trace. torch's answer takes two Python calls, and one of them is called at each layer: they ask only
# once the script has asked Dynamo for something compiled, where that is known.
compiles = True


_give_way: list[Callable[[], None]] = []


def until_compiled(patch: Patch) -> None:
    """`compiles` is False until the script asks Dynamo for something compiled."""
    global compiles  # noqa: PLW0603 - a global name is what the hooks read fastest, and what Dynamo traces
    compiles = False
    _give_way.clear()
    after_import("torch._dynamo.eval_frame", lambda: _before_compiling(patch))


def never_compiled(hook: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compiler.disable would set, but that imports the whole compiler: a compiled step calls the hook."""
    setattr(hook, "_torchdynamo_disable", True)  # noqa: B010 - a plain assignment to a function is a type error
    return hook


def when_compiled(then: Callable[[], None]) -> None:
    """Call `then` once that has happened: what Dynamo cannot trace has to give way."""
    _give_way.append(then)


def _before_compiling(patch: Patch) -> None:
    try:
        from torch._dynamo.eval_frame import OptimizeContext
    except ImportError:
        _compiles()
        return
    from hotlap.probe.guard import call_before  # which asks this module whether something is compiled

    call_before(patch, OptimizeContext, "__init__", _compiles)


def _compiles(*_: Any, **__: Any) -> None:
    global compiles  # noqa: PLW0603 - as above
    compiles = True
    while _give_way:
        _give_way.pop()()


def within_compiled() -> bool:
    """A function that Dynamo compiled is under way: whoever asks was called by it, or by what it calls."""
    return compiles and any(frame.f_code.co_filename.endswith(_CALLS_COMPILED) for frame in outwards(sys._getframe(1)))


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
