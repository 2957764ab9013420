"""Which operator, and which line of Python, each call of the device's runtime was made in: by nesting in time."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hotlap.trace import host
from hotlap.trace.table import Ints, Kind, Trace

_FRAME = re.compile(r"(?P<path>[^;()<>]+\.py)\((?P<line>\d{1,9})\): (?P<function>[^;]+)")
# Of a library, not of the user's: as Kineto shortens their paths, and as it does not.
_LIBRARY = re.compile(
    r"^(?:torch|torchvision|numpy|accelerate|transformers|lightning|pytorch_lightning|threading|contextlib|runpy"
    r"|multiprocessing|concurrent|importlib|collections|dataclasses|functools|logging|weakref)[/.]"
    r"|site-packages|dist-packages|/lib/python\d"
)

_OPERATOR, _RUNTIME = int(Kind.OPERATOR), int(Kind.RUNTIME)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's source."""

    path: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Of one call; -1 and None where the trace does not tell."""

    operator: int
    """Row of the innermost operator around it."""
    line: Line | None


Callers = Mapping[int, Caller]
"""Row of a runtime call -> who made it."""


def callers(trace: Trace, threads: frozenset[int]) -> Callers:
    """Row of each runtime call on these threads that launched something, or waited -> who made it."""
    wanted = host.wait_rows(trace, threads)
    wanted[trace.launch[trace.launch >= 0]] = True
    wanted |= trace.which(Kind.OPERATOR, Kind.PYTHON)
    rows = np.flatnonzero(wanted & np.isin(trace.lane, list(threads)))
    rows = rows[np.argsort(trace.lane[rows], kind="stable")]
    found: dict[int, Caller] = {}
    for ours in np.split(rows, np.flatnonzero(np.diff(trace.lane[rows])) + 1):
        found.update(_on_lane(trace, ours))
    return found


def _on_lane(trace: Trace, chosen: Ints) -> Iterator[tuple[int, Caller]]:
    """Rows come in the order of their begins, the longer first: what is open then is around them."""
    frames_of = np.unique(trace.name[chosen[trace.kind[chosen] == Kind.PYTHON]])
    lines = {int(one): line for one in frames_of if (line := line_of(trace.names[one])) is not None}
    columns = (trace.start[chosen], trace.end[chosen], trace.kind[chosen], trace.name[chosen])
    operators: list[tuple[float, int]] = []
    frames: list[tuple[float, Line]] = []
    for row, start, end, kind, name in zip(chosen.tolist(), *(one.tolist() for one in columns), strict=True):
        while operators and operators[-1][0] <= start:
            operators.pop()
        while frames and frames[-1][0] <= start:
            frames.pop()
        if kind == _OPERATOR:
            operators.append((end, row))
        elif kind == _RUNTIME:
            operator = operators[-1][1] if operators else -1
            yield row, Caller(operator, frames[-1][1] if frames else _written(trace, operator))
        elif name in lines:
            frames.append((end, lines[name]))


def _written(trace: Trace, operator: int) -> Line | None:
    """From the stack that older versions wrote into the operator."""
    if operator < 0 or trace.stack[operator] < 0:
        return None
    frames = (line_of(frame) for frame in trace.stacks[trace.stack[operator]].split(";"))
    return next((one for one in frames if one is not None), None)


def line_of(name: str) -> Line | None:
    """A frame of the user's own code, as Kineto names it; None for all else."""
    found = _FRAME.match(name.strip())
    if found is None or _LIBRARY.search(found["path"]):
        return None
    return Line(found["path"], int(found["line"]), found["function"])
