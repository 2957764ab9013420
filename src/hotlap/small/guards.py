"""Notices between two calls that a model, a function or an optimizer is no longer what was compiled."""

import inspect
from collections.abc import Iterator
from types import CellType, CodeType
from typing import Any

import torch
from torch import nn, optim

from hotlap.native import core
from hotlap.small import optimizers
from hotlap.small.trace import HOOKS


def new() -> Any:
    """A guard that watches nothing yet."""
    return core().module.Guard()


def watching(traced: Any, read: list[torch.Tensor]) -> Any:
    """A guard of all that tracing may have read: modules, hooks, attributes, globals, and the tensors in `read`.

    Of a plain function these are its globals, closure and defaults, and the modules among them.
    """
    guard, seen = new(), set[int]()
    for value in (traced,) if isinstance(traced, nn.Module) else _watch_code(guard, traced, seen):
        for module in value.modules() if isinstance(value, nn.Module) else ():
            _watch_module(guard, module, seen)
    watch_tensors(guard, read)
    return guard


def watch_tensors(guard: Any, tensors: list[torch.Tensor]) -> None:
    """Where they lie, and what they are; of constants, which may have been copied, their version too."""
    for p in tensors:
        if p.layout == torch.strided and p.device.type == "cpu" and p.is_contiguous():
            guard.tensor(p)
        guard.attribute(p, "requires_grad", p.requires_grad)
        if p.requires_grad:
            guard.attribute(p, "_backward_hooks", None)
        else:
            _watch_version(guard, p)


def watch_optimizer(guard: Any, optimizer: optim.Optimizer) -> None:
    """Its hooks, groups and state; the settings have a guard of their own."""
    for name in ("state", "param_groups"):
        guard.entry(vars(optimizer), name, getattr(optimizer, name))
    for hooks in optimizers.HOOKS:
        guard.size(getattr(optimizer, hooks), len(getattr(optimizer, hooks)))
    guard.size(optimizer.param_groups, len(optimizer.param_groups))
    for group in optimizer.param_groups:
        guard.size(group["params"], len(group["params"]))
    guard.size(optimizer.state, len(optimizer.state))
    for state in optimizer.state.values():
        for name, value in state.items():
            guard.entry(state, name, value)


def watching_settings(optimizer: optim.Optimizer) -> Any:
    """A guard of the settings in its groups; the rates are read at every step."""
    guard = new()
    for group in optimizer.param_groups:
        guard.rate(group, "lr")
        for key in optimizers.READ:
            if key in group:
                guard.entry(group, key, group[key])
    return guard


def _watch_module(guard: Any, module: nn.Module, seen: set[int]) -> None:
    own = vars(module)
    for hooks in HOOKS:
        guard.size(own[hooks], 0)
    guard.size(own, len(own))
    for table in ("_parameters", "_modules", "_buffers"):
        guard.size(own[table], len(own[table]))
        for key in own[table]:
            _watch_value(guard, own[table], key)
    # Of torch's own layers a dropout alone reads it.
    unread = "training" if type(module).__module__.startswith("torch.") and type(module) is not nn.Dropout else ""
    for key in own:
        if not key.startswith("_") and key != unread:
            _watch_value(guard, own, key)
    _watch_methods(guard, type(module), seen)


def _watch_methods(guard: Any, kind: type[nn.Module], seen: set[int]) -> None:
    """What `forward` reads, and the methods that it may call."""
    for _ in _watch_code(guard, kind.forward, seen):
        pass
    for name in getattr(getattr(kind.forward, "__code__", None), "co_names", ()):
        method = getattr(kind, name, None)
        if inspect.isfunction(method):
            for _ in _watch_code(guard, method, seen):
                pass


def _watch_value(guard: Any, table: dict[str, Any], key: str) -> None:
    value = table[key]
    guard.entry(table, key, value)
    _watch_constant(guard, value)
    if isinstance(value, list | dict):
        guard.size(value, len(value))
    for name in value if isinstance(value, dict) else ():
        guard.entry(value, name, value[name])


def _watch_constant(guard: Any, value: Any) -> None:
    """A constant tensor may have been copied: its contents must not change."""
    if isinstance(value, torch.Tensor) and not value.requires_grad:
        _watch_version(guard, value)
        guard.attribute(value, "requires_grad", False)


def _watch_version(guard: Any, tensor: torch.Tensor) -> None:
    """How often it was changed in place, as autograd counts it: not where it was made in inference mode."""
    if not tensor.is_inference():
        guard.attribute(tensor, "_version", tensor._version)


def _watch_code(guard: Any, function: Any, seen: set[int]) -> Iterator[Any]:
    """What a function may read of its globals, closure and defaults, and the functions among these in turn.

    torch's own functions are taken as they are.
    """
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen or (getattr(function, "__module__", None) or "").startswith("torch."):
        return
    seen.add(id(code))
    guard.attribute(function, "__code__", code)
    guard.attribute(function, "__defaults__", function.__defaults__)
    for value in _values_read(guard, function, code):
        yield value
        if inspect.isfunction(value):
            yield from _watch_code(guard, value, seen)


def _values_read(guard: Any, function: Any, code: CodeType) -> list[Any]:
    names, found = function.__globals__, list(function.__defaults__ or ())
    for name in code.co_names:
        if name in names:
            _watch_value(guard, names, name)
            found.append(names[name])
    for cell in function.__closure__ or ():
        if cell != _EMPTY:
            guard.attribute(cell, "cell_contents", cell.cell_contents)
            _watch_constant(guard, cell.cell_contents)
            found.append(cell.cell_contents)
    return found


_EMPTY = CellType()
