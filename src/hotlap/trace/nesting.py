"""Which operator, and which line of Python, each call of the device's runtime was made in: by nesting in time."""

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from hotlap.trace import host
from hotlap.trace.table import Ints, Kind, Mask, Trace

_FRAME = re.compile(r"(?P<path>[^;()<>]+\.py)\((?P<line>\d{1,9})\): (?P<function>[^;]+)")
# Of a library, not of the user's: as Kineto shortens their paths, and as it does not.
_LIBRARY = re.compile(
    r"^(?:torch|torchvision|numpy|accelerate|transformers|lightning|pytorch_lightning|threading|contextlib|runpy"
    r"|multiprocessing|concurrent|importlib|collections|dataclasses|functools|logging|weakref)[/.]"
    r"|site-packages|dist-packages|/lib/python\d"
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's source."""

    path: str
    line: int
    function: str


def around(trace: Trace, rows: Ints, holders: Mask) -> Ints:
    """(R,) row of the innermost holder that is open around each of these rows on its thread; -1 where none is.

    Rows come in the order of their begins, the longer first, the holders among them.
    """
    found = []
    open_on: dict[int, list[tuple[float, int]]] = defaultdict(list)
    columns = (trace.lane, trace.start, trace.end, holders)
    for row, lane, start, end, holds in zip(rows.tolist(), *(one[rows].tolist() for one in columns), strict=True):
        open_ = open_on[lane]
        while open_ and open_[-1][0] <= start:
            open_.pop()
        found.append(open_[-1][1] if open_ else -1)
        if holds:
            open_.append((end, row))
    return np.array(found, np.int64)


class Callers:
    """Who made each call of the runtime on these threads that launched something, or waited."""

    def __init__(self, trace: Trace, threads: frozenset[int]) -> None:
        self._trace = trace
        ours = np.isin(trace.lane, list(threads))
        calls = host.wait_rows(trace, threads)
        calls[trace.launch[trace.launch >= 0]] = True
        self._calls = calls & ours & trace.which(Kind.RUNTIME)
        self.frames = ours & trace.which(Kind.PYTHON) & trace.where(lambda name: line_of(name) is not None)
        """(N,) frames of the user's own code."""
        self.operator = self._innermost(ours & trace.which(Kind.OPERATOR))
        """(N,) row of the innermost operator around each call; -1 for all other rows."""
        self._frame = self._innermost(self.frames)

    def _innermost(self, holders: Mask) -> Ints:
        found = np.full(len(holders), -1, np.int64)
        rows = np.flatnonzero(holders | self._calls)
        found[rows] = np.where(self._calls[rows], around(self._trace, rows, holders), -1)
        return found

    def launched_in(self, rows: Ints) -> Ints:
        """(R,) row of the operator that launched each of these events on a device; -1 where that is not known."""
        launches = self._trace.launch[rows]
        return np.where(launches >= 0, self.operator[np.maximum(launches, 0)], -1)

    def line(self, call: int) -> Line | None:
        """Of a call."""
        known = call >= 0 and self._calls[call] and self._frame[call] >= 0
        return line_of(self._trace.text(self._frame[call])) if known else None


def line_of(name: str) -> Line | None:
    """A frame of the user's own code, as Kineto names it; None for all else."""
    found = _FRAME.match(name.strip())
    if found is None or _LIBRARY.search(found["path"]):
        return None
    return Line(found["path"], int(found["line"]), found["function"])
