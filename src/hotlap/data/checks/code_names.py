"""Names that code reads: globals, attributes, variables of a closure."""

import dis
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any


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
