"""Steps that a script captures in a graph of the device: each replay makes them, and no other hook is called then."""

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from hotlap import cuda
from hotlap.levers.lever import Patch
from hotlap.probe import clock as phases
from hotlap.probe.guard import call_before

if TYPE_CHECKING:
    from hotlap.probe.session import Session


@dataclass(slots=True)
class _Captured:
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    roots: list[Any] = field(default_factory=list)
    """What backward passes started from: each replay writes new losses into them."""


class Graphs:
    """What each graph of the script's holds."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._known: WeakKeyDictionary[Any, _Captured] = WeakKeyDictionary()
        self.capturing: _Captured | None = None
        """Nothing that is called now is carried out, and nothing must wait, or leave work of ours in the graph."""

    @property
    def seen(self) -> bool:
        """There is one, which may write what the script holds at any replay."""
        return bool(self._known)

    def install(self, patch: Patch) -> None:
        """Follow captures and replays."""
        guard, what = self._session.guard, "graphs of the device"
        run, replayed = cuda.Graph.replay, guard(self._replayed, what)

        @functools.wraps(run)
        def replay(graph: Any) -> None:
            begin = self._session.clock.now()
            run(graph)
            replayed(graph, begin)

        call_before(patch, cuda.Graph, "capture_begin", guard(self._begins, what))
        call_before(patch, cuda.Graph, "capture_end", guard(self._ends, what))
        patch.set(cuda.Graph, "replay", replay)

    def _begins(self, graph: Any, *_: Any, **__: Any) -> None:
        self.capturing = self._known[graph] = _Captured()
        self._session.device_clock.paused = True
        self._session.marker.only = None  # the short way of the hooks would count a step

    def _ends(self, _: Any) -> None:
        self.capturing = None
        self._session.device_clock.paused = False

    def _replayed(self, graph: Any, begin: float) -> None:
        session, captured = self._session, self._known.get(graph)
        if captured is None or not session.thread.trains() or session.clock.where not in phases.BETWEEN:
            return
        # Its parts cannot be told apart.
        session.clock.note((phases.FORWARD, begin, session.clock.now()))
        for roots in captured.roots:
            session.losses.went_backward(roots)
        end = session.clock.now()
        for optimizer in captured.optimizers:
            session.clock.note((phases.STEP, end, end))
            session.update_made(optimizer, end)
