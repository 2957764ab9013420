"""Processes that a script starts with multiprocessing: those that may train are followed, data-loader workers are not.

Nothing is imported at module level but the standard library: each data-loader worker that is not forked comes by here.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# Modules whose processes serve a training and never train themselves.
_SERVANTS = ("torch.utils.data.", "multiprocessing.", "concurrent.futures.")


def start(plan_path: str, begun: float) -> None:
    """In any Python that the user's command started, `begun` when our work in it did: wait for torch, or for a target
    of multiprocessing's; nothing where it was started for multiprocessing's own affairs."""
    words = sys.orig_argv[1:4]
    # To run a target, or to fork those that will.
    if any(word.startswith(("from multiprocessing.spawn", "from multiprocessing.forkserver")) for word in words):
        _await_target(plan_path)
    elif not any("multiprocessing" in word for word in words):
        from hotlap.probe.bootstrap import await_torch

        await_torch(plan_path, begun)


def _await_target(plan_path: str) -> None:
    """In a fresh process of multiprocessing: start the probe before its target runs, if that may train."""
    # Before it runs the main script once more. Read without `hotlap.record`, which takes longer than such a worker.
    replaced = json.loads(Path(plan_path).read_bytes()).get("replaced")
    if replaced:
        from hotlap.probe import edited

        edited.serve(replaced, plan_path)
    arrived: list[Callable[[], Session | None]] = []

    def arrive() -> "Callable[[], Session | None]":
        from hotlap.probe.bootstrap import arrive

        # A child that this process forks later on has it already.
        if not arrived:
            try:
                arrived.append(arrive(plan_path))
            except Exception:  # hotlap has gone meanwhile
                arrived.append(lambda: None)
        return arrived[0]

    _around_bootstrap(arrive)


def follow(session: "Session") -> None:
    """In a process with a probe: its forked children have one as well, and leave past every atexit hook."""
    _around_bootstrap(lambda: lambda: session)


def _around_bootstrap(arrive: "Callable[[], Callable[[], Session | None]]") -> None:
    from multiprocessing.process import BaseProcess

    bootstrap = BaseProcess._bootstrap  # type: ignore[attr-defined]

    def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = getattr(self, "_target", None)
        if f"{getattr(target, '__module__', '')}.".startswith(_SERVANTS):
            return bootstrap(self, *args, **kwargs)
        session = arrive()
        code = bootstrap(self, *args, **kwargs)
        found = session()
        if found is not None:
            found.shutdown.child_ends(code or 0)
        return code

    setattr(BaseProcess, "_bootstrap", _bootstrap)  # noqa: B010 - a plain assignment to a method is a type error
