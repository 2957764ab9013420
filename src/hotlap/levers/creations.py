"""Tensors that a script makes on the host and moves to the device at once, in each step, found in its source."""

import ast
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any

from hotlap.levers.lever import Patch
from hotlap.record import Phase, Run
from hotlap.source import Edit, ReplaceCall, Script, parsed, scripts

FILLED = ("zeros", "ones", "full", "eye", "arange")
"""Functions of torch that make the same numbers everywhere."""
RANDOM = ("randn", "rand", "randint", "randperm")
"""Those that draw, from the generator of the device that they are on."""

# A choice of these cannot simply be handed on.
_CHOSEN = ("device", "generator", "out", "pin_memory", "layout")


@dataclass(frozen=True, slots=True, eq=False)
class Creation:
    """`torch.zeros(3).to(device)`."""

    move: ast.Call
    make: ast.Call
    maker: str
    """"zeros"."""
    device: str
    """An expression: "device", "x.device", "'cuda'"."""


def creations(script: Script, makers: Sequence[str]) -> list[Creation]:
    """Those that a script makes over and over, of these functions of torch."""
    found = []
    for move in script.all_calls():
        make = move.func.value if isinstance(move.func, ast.Attribute) else None
        if not isinstance(make, ast.Call) or not isinstance(make.func, ast.Attribute):
            continue
        device = _device(script, move)
        maker = make.func.attr
        known = maker in makers and script.full_name(make.func) == f"torch.{maker}"
        if known and device is not None and _is_plain(make) and _comes_again(script, move):
            found.append(Creation(move, make, maker, device))
    # A line that makes two by one function would not tell them apart in a running process.
    places = [(one.make.lineno, one.maker) for one in found]
    return [one for one in found if places.count((one.make.lineno, one.maker)) == 1]


def creation_edits(run: Run, makers: Sequence[str]) -> Iterator[Edit]:
    """`torch.zeros(3).to(device)` -> `torch.zeros(3, device=device)`."""
    for script in scripts(run):
        for one in creations(script, makers):
            text = script.code(one.make)
            text = ast.unparse(one.make) if "\n" in text or "\r" in text else text
            inner = text[:-1].rstrip().removesuffix(",")
            comma = "" if inner.endswith("(") else ", "
            yield ReplaceCall(site=script.site(one.move, calls="to"), code=f"{inner}{comma}device={one.device})")


def creation_cost_s(run: Run) -> float:
    """Upper bound: the script's own Python, copies, and waiting for the device."""
    if run.device == "cpu":
        return 0.0
    return sum(run.mean_phase_s(phase) or 0.0 for phase in (Phase.OTHER, Phase.TRANSFER, Phase.SYNC))


def install_creations(patch: Patch, makers: Sequence[str]) -> None:
    """CHILD: on the lines concerned these functions of torch make their tensor where it goes."""
    import torch

    def placing(make: Callable[..., Any], maker: str) -> Callable[..., Any]:
        @wraps(make)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            caller = sys._getframe(1)
            device = _places(caller.f_code.co_filename, tuple(makers)).get((caller.f_lineno, maker))
            if device is not None:
                # A name, an attribute or a text, of the script's own.
                kwargs["device"] = eval(device, caller.f_globals, caller.f_locals)
            return make(*args, **kwargs)

        return wrapper

    for maker in makers:
        patch.set(torch, maker, placing(getattr(torch, maker), maker))


@lru_cache(maxsize=1024)
def _places(path: str, makers: tuple[str, ...]) -> Mapping[tuple[int, str], str]:
    """(line, function) -> expression for the device, in one file."""
    if not path.endswith((".py", ".pyw")) or "site-packages" in path:
        return {}
    try:
        data = Path(path).read_bytes()
        script = parsed(path, sha256(data).hexdigest(), data.decode())
    except (OSError, UnicodeDecodeError):
        return {}
    found = creations(script, makers) if script is not None else []
    return {(one.make.lineno, one.maker): one.device for one in found}


def _device(script: Script, move: ast.Call) -> str | None:
    """Where the call moves its tensor; None if it does anything else, or that cannot be told."""
    assert isinstance(move.func, ast.Attribute)
    words = {word.arg: word.value for word in move.keywords}
    words.pop("non_blocking", None)
    if move.func.attr == "cuda" and not move.args and not words:
        return '"cuda"'
    if move.func.attr != "to":
        return None
    given = [*move.args, *([words.pop("device")] if "device" in words else [])]
    if words or len(given) != 1:
        return None
    match given[0]:
        case ast.Constant(value=str()) | ast.Attribute(attr="device"):
            return script.code(given[0])
        case ast.Name(id=name) | ast.Attribute(attr=name) if "dev" in name.lower():
            return script.code(given[0])
    return None


def _is_plain(make: ast.Call) -> bool:
    """Nothing was chosen that the other device might not have, and no argument draws numbers of its own."""
    stars = any(isinstance(arg, ast.Starred) for arg in make.args) or any(word.arg is None for word in make.keywords)
    chosen = any(word.arg in _CHOSEN for word in make.keywords)
    # With a fraction as a step the two devices round differently.
    fractions = isinstance(make.func, ast.Attribute) and make.func.attr == "arange" and _has_fraction(make)
    return not (stars or chosen or fractions) and make.lineno == make.end_lineno


def _has_fraction(make: ast.Call) -> bool:
    return any(
        (isinstance(node, ast.Constant) and isinstance(node.value, float)) or isinstance(node, ast.Div)
        for node in ast.walk(make)
    )


def _comes_again(script: Script, node: ast.AST) -> bool:
    """In a loop, or in a function that may be called in one (a constructor is not)."""
    for outer in script.around(node):
        if isinstance(outer, ast.For | ast.While):
            return True
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return outer.name not in ("__init__", "main")
    return False
