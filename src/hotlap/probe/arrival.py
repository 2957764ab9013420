"""From the start of a Python process to the moment when torch is there: seeds, replaced sources, the import hook."""

import os
import random
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.probe.imports import after_import
from hotlap.record import Plan, load

if TYPE_CHECKING:
    from hotlap.probe.session import Session


def await_torch(plan_path: str) -> None:
    """In a Python that the user's command started: wait for torch."""
    # Not in processes of multiprocessing: "parent" means the thread that started them, and it may end before them.
    plan = load(Path(plan_path), Plan)
    if not (plan.whole or plan.only_levers) or os.environ.get("HOTLAP_PARENT") == str(os.getppid()):
        # (A real training may outlive the shell that started it, as it would without us.)
        _die_with_parent()
    arrive(plan_path)


def arrive(plan_path: str) -> "Callable[[], Session | None]":
    """Start the probe as soon as torch has been imported; until then only seed and serve replaced sources.

    Answers how to ask for the session, which is None as long as there was no torch.
    """
    plan = load(Path(plan_path), Plan)
    serve_replaced(plan.replaced)
    if plan.seed is not None:
        random.seed(plan.seed)
        after_import("numpy", lambda: _seed_numpy(plan))
    sessions: list[Session] = []

    def start() -> None:
        from hotlap.probe.start import start as start_probe
        from hotlap.probe.start import start_levers

        if plan.only_levers:
            start_levers(plan)
        else:
            sessions.append(start_probe(plan))

    after_import("torch", start)
    return lambda: sessions[0] if sessions else None


def _seed_numpy(plan: Plan) -> None:
    import numpy as np

    np.random.seed(plan.seed)


def _die_with_parent() -> None:
    """On Linux the kernel ends this process when hotlap is gone, however it went: no orphan is left."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def serve_replaced(replaced: Any) -> None:
    """Let imports of the given files (absolute path -> text) run that text instead of what is on disk."""
    if not replaced:
        return
    texts = dict(replaced)
    read_code = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = texts.get(str(Path(path).resolve()))
        # Compiled here and now: a cached .pyc on disk belongs to the other text.
        return read_code(self, fullname) if text is None else compile(text, path, "exec", dont_inherit=True)

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010 - as above
