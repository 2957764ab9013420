"""From the start of a Python process to the moment when torch is there: seeds, edited sources, the import hook.

Of the processes that a script starts with multiprocessing, those that may train are followed, and data-loader workers
are not: each of them that is not forked comes by here, so little is imported at module level.
"""

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
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
        _await_torch(plan_path, begun)


def _await_torch(plan_path: str, begun: float) -> None:
    from hotlap.probe import edited, enclose

    # For the kernel "parent" is the thread that started a process, and only hotlap's own is known to outlive what it
    # started. Other processes see between two steps that hotlap has gone.
    if os.environ.get("HOTLAP_PARENT") == str(os.getppid()):
        enclose.die_with_parent()
    arrive(plan_path, begun)
    edited.main_becomes_stand_in()


def arrive(plan_path: str, begun: float | None = None) -> "Sequence[Session]":
    """Start the probe as soon as torch has been imported; until then only seed and serve edited sources.

    What it returns holds the session, once there is torch.
    """
    import random

    from hotlap.probe import edited
    from hotlap.probe.imports import after_import
    from hotlap.record import Plan, load

    plan = load(Path(plan_path), Plan)
    edited.serve(plan.replaced, plan_path)
    if plan.seed is not None:
        random.seed(plan.seed)
        after_import("numpy", lambda: sys.modules["numpy"].random.seed(plan.seed))
    sessions: list[Session] = []

    def begin() -> None:
        torch_came = time.perf_counter()
        try:
            from hotlap.probe.start import seed, start

            if plan.only_levers:
                seed(plan)
            else:
                sessions.append(start(plan))
            if sessions:
                sessions[0].own_start_s = arrived_s + time.perf_counter() - torch_came
        except Exception as error:
            # The script's import of torch must not fail by that.
            told = f"hotlap failed when torch was imported: {type(error).__name__}: {error}"
            tell_why_not(Path(plan.out), told)

    arrived_s = 0.0 if begun is None else time.perf_counter() - begun
    after_import("torch", begin)  # at once, where a child of multiprocessing has read the script already
    return sessions


def _await_target(plan_path: str) -> None:
    """In a fresh process of multiprocessing: start the probe before its target runs, if that may train."""
    # Before it runs the main script once more. Read without `hotlap.record`, which takes longer than such a worker.
    replaced = json.loads(Path(plan_path).read_bytes()).get("replaced")
    if replaced:
        from hotlap.probe import edited

        edited.serve(replaced, plan_path)

    @functools.cache  # a child that this process forks later on has it already
    def arrived() -> "Sequence[Session]":
        try:
            return arrive(plan_path)
        except Exception:  # hotlap has gone meanwhile
            return ()

    _around_bootstrap(arrived)


def follow(session: "Session") -> None:
    """In a process with a probe: its forked children have one as well, and leave past every atexit hook."""
    _around_bootstrap(lambda: (session,))


def _around_bootstrap(arrive: "Callable[[], Sequence[Session]]") -> None:
    from multiprocessing.process import BaseProcess

    bootstrap = BaseProcess._bootstrap  # type: ignore[attr-defined]

    def _bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = getattr(self, "_target", None)
        if f"{getattr(target, '__module__', '')}.".startswith(_SERVANTS):
            return bootstrap(self, *args, **kwargs)
        sessions = arrive()
        code = bootstrap(self, *args, **kwargs)
        for session in sessions:
            session.shutdown.child_ends(code or 0)
        return code

    setattr(BaseProcess, "_bootstrap", _bootstrap)  # noqa: B010 - a plain assignment to a method is a type error


def tell_why_not(out: Path, text: str) -> None:
    """Why there is no record of this process: for the parent, if it is still there."""
    with contextlib.suppress(OSError), (out / "no-probe").open("ab") as told:
        told.write(f"{text[:300]}\n".encode(errors="backslashreplace"))  # names of files that are not UTF-8
