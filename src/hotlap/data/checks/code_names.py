"""Code: whether it is the script's own, names that it reads, and what it does."""

import dis
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from functools import cache, lru_cache, partial
from pathlib import PurePath
from typing import Any, NamedTuple

_STANDARD = tuple(
    os.path.join(folder, "")
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__))
)


@cache
def is_library(module: str | None) -> bool:
    """True for a module that is installed: its globals are no settings of a script. Judged by where its file lies, for
    one beside the script may have the name of one of Python's."""
    top = (module or "").partition(".")[0]
    source = str(getattr(sys.modules.get(top), "__file__", None) or "")
    if top == "hotlap" or not source:
        return top == "hotlap" or top in sys.stdlib_module_names  # some of Python's have no file
    return source.startswith(_STANDARD) or bool({"site-packages", "dist-packages"} & {*PurePath(source).parts})


class Names(NamedTuple):
    """Names that a function may read from around it."""

    kind: str
    """"closure", "globals", or "module ..." of one of the script's own (`config.SIZE`)."""
    owner: Any
    """The function or code that has them."""
    what: str
    """What one of them is, before the name of the function: "a global name used by"."""
    names: list[str]
    values: Callable[[], list[Any]]
    """What they are bound to now; None for what is not bound (yet, or any more)."""


def names_around(function: types.FunctionType) -> Iterator[Names]:
    """All that a function of the script's own reads from around it."""
    code, known, cells = function.__code__, function.__globals__, function.__closure__ or ()
    yield Names("closure", function, "a variable around", [*code.co_freevars], partial(_cell_contents, cells))
    names = [name for name in _global_names(code) if name in known]
    yield Names("globals", function, "a global name used by", names, partial(_bound, known, names))
    for module in [known[name] for name in names]:
        if isinstance(module, types.ModuleType) and not is_library(module.__name__):
            read = [name for name in _attribute_names(code) if name in vars(module)]
            yield Names(
                f"module {module.__name__}", code, f"a name of {module.__name__} used by", read,
                partial(_bound, vars(module), read),
            )  # fmt: skip


def _bound(known: dict[str, Any], names: list[str]) -> list[Any]:
    return [known.get(name) for name in names]


def _cell_contents(cells: tuple[types.CellType, ...]) -> list[Any]:
    values = []
    for cell in cells:
        try:
            values.append(cell.cell_contents)
        except ValueError:
            values.append(None)
    return values


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code, and that of the functions and comprehensions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


@lru_cache(maxsize=1024)
def _global_names(code: types.CodeType) -> list[str]:
    """Global names that it reads. (`co_names` has those of attributes too: `self.data` is no `data`.)"""
    steps = (step for part in _codes(code) for step in dis.get_instructions(part))
    return sorted({str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})


@lru_cache(maxsize=1024)
def _attribute_names(code: types.CodeType) -> list[str]:
    """Names that it may read as attributes."""
    return sorted({name for part in _codes(code) for name in part.co_names})


def text_of(code: types.CodeType) -> str:
    """What it does: without the lines where it stands."""
    constants = [
        text_of(each) if isinstance(each, types.CodeType) else sorted(map(repr, each))
        if isinstance(each, frozenset) else each
        for each in code.co_consts
    ]  # fmt: skip
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return repr((code.co_code, names, constants))
