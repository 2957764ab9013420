"""An error about tensors on different devices -> plain sentences: what is where, and which line brought it there."""

import ast
import linecache
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch

from hotlap.probe.sites import is_users

# What torch 2.6 to 2.13 says, by kind: operators ("found at least two devices, cuda:0 and cpu!", later "got mat1 is on
# cpu, different from other tensors on cuda:0"), convolutions, indexing, recurrent layers, DataParallel, compiled code,
# generators, and the meta device.
_TEXTS = re.compile(
    r"expected all tensors to be on the same device"
    r"|input type \(.*\) and weight type \(.*\) should be the same"
    r"|indices should be either on .* or on the same device as the indexed tensor"
    r"|tensor for argument .* is on \w+, but expected"
    r"|tensors? are not at the same device"
    r"|module must have its parameters and buffers on device .* but found one of them on device"
    r"|found two different devices"
    r"|expected a '\w+' device type for generator but found"
    r"|tensor on device \S+ is not on the expected device"
    r"|attempting to run \w+, but the input is on",
    re.IGNORECASE,
)

_MOST_NAMES = 3
_MOST_TENSORS = 6


@dataclass(frozen=True, slots=True)
class _Held:
    """A tensor with the name by which the script knows it."""

    name: str
    kind: str
    device: str


def explain(error: BaseException) -> tuple[str, ...]:
    """Sentences about an error; none if it is about something else. Never raises."""
    try:
        found = next((one for one in _chain(error) if is_mismatch(one)), None)
        return tuple(_sentences(found)) if found is not None else ()
    except Exception as failure:
        # It is told beside the script's own traceback, and must not replace it.
        return (f"Tensors on different devices met; which ones could not be found out ({type(failure).__name__}).",)


def is_mismatch(error: BaseException) -> bool:
    """Torch says so."""
    return isinstance(error, RuntimeError | ValueError) and _TEXTS.search(str(error)) is not None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from: frameworks wrap those of the script."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _sentences(error: BaseException) -> Iterator[str]:
    frames = list(_frames(error.__traceback__))
    line = next(((frame, number) for frame, number in reversed(frames) if is_users(frame.f_code.co_filename)), None)
    if line is not None:
        yield f"Tensors on different devices met at {_place(line[0].f_code.co_filename, line[1])}."
    modules = _modules(frames)
    for module, name in modules[:1]:
        yield from _split_module(module, name)
    inner = modules[-1][0] if modules else None
    home = _main_device(modules[0][0]) if modules else None
    told = list(dict.fromkeys(_users_tensors(frames, home)))[:_MOST_TENSORS]
    yield from told
    if not told and inner is not None and home is not None:
        yield from _arguments(frames, inner, home)


def _users_tensors(frames: list[tuple[FrameType, int]], home: str | None) -> Iterator[str]:
    """Innermost function first; the first one that holds a tensor elsewhere is the one to tell of."""
    for frame, number in reversed(frames):
        if is_users(frame.f_code.co_filename):
            found = list(_locals_elsewhere(frame, number, home))
            yield from found
            if found:
                return


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _place(path: str, number: int) -> str:
    text = linecache.getline(path, number).strip()
    return f"{Path(path).name}:{number}" + (f" (`{text}`)" if text else "")


# Modules


def _modules(frames: list[tuple[FrameType, int]]) -> list[tuple[torch.nn.Module, str]]:
    """The modules that were being called, outermost first, each with the name that the script has for it."""
    found: list[tuple[torch.nn.Module, str]] = []
    for frame, _ in frames:
        module = frame.f_locals.get("self")
        if isinstance(module, torch.nn.Module) and all(module is not other for other, _ in found):
            found.append((module, _name_of(module, frames) or type(module).__name__))
    return found


def _name_of(module: torch.nn.Module, frames: list[tuple[FrameType, int]]) -> str | None:
    for frame, _ in frames:
        for name, value in frame.f_locals.items():
            if value is module and name != "self":
                return name
    return None


def _held(module: torch.nn.Module) -> list[_Held]:
    """Parameters, buffers, and tensors that are plain attributes, of a module and all in it."""
    found = [_Held(name, "parameter", str(value.device)) for name, value in module.named_parameters()]
    found += [_Held(name, "buffer", str(value.device)) for name, value in module.named_buffers()]
    for prefix, inner in module.named_modules():
        for name, value in vars(inner).items():
            if isinstance(value, torch.Tensor):
                found.append(_Held(f"{prefix}.{name}" if prefix else name, "attribute", str(value.device)))
    return found


def _main_device(module: torch.nn.Module) -> str | None:
    """Where most of its parameters are; of its buffers, if it has none."""
    held = _held(module)
    for kind in ("parameter", "buffer"):
        devices = Counter(one.device for one in held if one.kind == kind)
        if devices:
            return devices.most_common(1)[0][0]
    return None


def _split_module(module: torch.nn.Module, name: str) -> Iterator[str]:
    home = _main_device(module)
    if home is None:
        return
    away = [one for one in _held(module) if one.device != home]
    if not away:
        yield f"All parameters and buffers of {name} are on {home}."
        return
    for kind, device in dict.fromkeys((one.kind, one.device) for one in away):
        names = [f"{name}.{one.name}" for one in away if (one.kind, one.device) == (kind, device)]
        yield f"{_listed(names)} {'is' if len(names) == 1 else 'are'} on {device}, most of {name} is on {home}." + (
            " It is a plain attribute, which `.to()` does not move: make it a buffer with `register_buffer`."
            if kind == "attribute"
            else f" Move the whole module after all of it is built: `{name}.to('{home}')`."
        )


def _listed(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


# Tensors that the script's functions hold


def _locals_elsewhere(frame: FrameType, number: int, home: str | None) -> Iterator[str]:
    """Tensors named in the failing line that are not where the model is (or, without a model, all that are named)."""
    named = _names_in(frame.f_code.co_filename, number)
    tensors = {name: value for name in named if isinstance(value := _value(name, frame), torch.Tensor)}
    if home is None and len({str(value.device) for value in tensors.values()}) < 2:
        return
    for name, value in tensors.items():
        device = str(value.device)
        if device == home:
            continue
        origin = _assigned(frame, name, number)
        where = f", from {_place(frame.f_code.co_filename, origin)}" if origin is not None else ""
        shape = "x".join(map(str, value.shape)) or "a scalar"
        cure = f" Move it first: `{name} = {name}.to('{home}')`." if home is not None and "." not in name else ""
        yield f"`{name}` ({str(value.dtype).removeprefix('torch.')}, {shape}) is on {device}{where}.{cure}"


def _arguments(frames: list[tuple[FrameType, int]], module: torch.nn.Module, home: str) -> Iterator[str]:
    """What the innermost module was called with, where no name of the script's holds it."""
    for frame, _ in reversed(frames):
        if frame.f_locals.get("self") is not module or frame.f_code.co_name != "forward":
            continue
        for name, value in frame.f_locals.items():
            if isinstance(value, torch.Tensor) and str(value.device) != home:
                kind = type(module).__name__
                yield f"The argument `{name}` of {kind} is on {value.device}, its parameters on {home}."
        return


def _value(name: str, frame: FrameType) -> Any:
    """Of a name, or of an attribute ("self.mask"); None if there is none. Runs no code of the script's."""
    first, *rest = name.split(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for part in rest:
        if isinstance(value, torch.nn.Module):
            value = {**vars(value), **value._parameters, **value._buffers, **value._modules}.get(part)
        else:
            value = getattr(value, "__dict__", {}).get(part)
    return value


def _tree(path: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None


def _names_in(path: str, number: int) -> list[str]:
    """Names and dotted names in the innermost statement around a line."""
    tree = _tree(path)
    around = [
        node
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.stmt) and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]
    if not around:
        return []
    statement = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    names = [ast.unparse(node) for node in ast.walk(statement) if isinstance(node, ast.Name | ast.Attribute)]
    return [name for name in dict.fromkeys(names) if re.fullmatch(r"[\w.]+", name)]


def _assigned(frame: FrameType, name: str, number: int) -> int | None:
    """The last line before `number` in which `name` is given a value, in this function."""
    tree = _tree(frame.f_code.co_filename)
    first = frame.f_code.co_firstlineno if frame.f_code.co_name != "<module>" else 0
    lines = [
        node.lineno
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and first <= node.lineno <= number
        and ast.unparse(node) == name
    ]
    earlier = [line for line in lines if line < number]
    return max(earlier, default=None)
