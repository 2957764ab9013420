"""From the start of a Python process to the moment when torch is there: seeds, edited sources, the import hook."""

import contextlib
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.probe import edited
from hotlap.probe.imports import after_import
from hotlap.probe.own_imports import OwnImports
from hotlap.record import Plan, load

if TYPE_CHECKING:
    from hotlap.probe.session import Session


def await_torch(plan_path: str, begun: float) -> None:
    """In a Python that the user's command started: wait for torch. `begun`: when our work in it did."""
    # For the kernel "parent" is the thread that started a process, and only hotlap's own is known to outlive what it
    # started. Other processes see between two steps that hotlap has gone.
    if os.environ.get("HOTLAP_PARENT") == str(os.getppid()):
        _die_with_parent()
    arrive(plan_path, begun)
    edited.main_becomes_stand_in()


def arrive(plan_path: str, begun: float | None = None) -> "Callable[[], Session | None]":
    """Start the probe as soon as torch has been imported; until then only seed and serve edited sources.

    Answers how to ask for the session, which is None as long as there was no torch.
    """
    plan = load(Path(plan_path), Plan)
    edited.serve(plan.replaced, plan_path)
    if plan.seed is not None:
        random.seed(plan.seed)
        after_import("numpy", lambda: sys.modules["numpy"].random.seed(plan.seed))
    sessions: list[Session] = []

    def start() -> None:
        torch_came = time.perf_counter()
        try:
            with OwnImports():
                from hotlap.probe.start import seed
                from hotlap.probe.start import start as start_probe

                if plan.only_levers:
                    seed(plan)
                else:
                    sessions.append(start_probe(plan))
            if sessions:
                sessions[0].own_start_s = arrived_s + time.perf_counter() - torch_came
        except Exception as error:
            # The script's import of torch must not fail by that.
            told = f"hotlap failed when torch was imported: {type(error).__name__}: {error}"
            tell_why_not(Path(plan.out), told)

    after_import("torch", start)
    arrived_s = 0.0 if begun is None else time.perf_counter() - begun
    return lambda: sessions[0] if sessions else None


def tell_why_not(out: Path, text: str) -> None:
    """Why there is no record of this process: for the parent, if it is still there."""
    with contextlib.suppress(OSError), (out / "no-probe").open("ab") as told:
        told.write(f"{text[:300]}\n".encode(errors="backslashreplace"))  # names of files that are not UTF-8


def _die_with_parent() -> None:
    """The kernel ends this process when hotlap is gone, however it went: no orphan is left."""
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
