"""Code: whether it is the script's own, names that it reads, and what it does."""

import dis
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import PurePath
from typing import Any

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


def cell_contents(cells: tuple[types.CellType, ...]) -> list[Any]:
    """What the variables of a closure hold; one that is not bound (yet, or any more) counts as None."""
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
def global_names(code: types.CodeType) -> list[str]:
    """Global names that it reads. (`co_names` has those of attributes too: `self.data` is no `data`.)"""
    steps = (step for part in _codes(code) for step in dis.get_instructions(part))
    return sorted({str(step.argval) for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")})


@lru_cache(maxsize=1024)
def attribute_names(code: types.CodeType) -> list[str]:
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
