"""Torch has just been imported: a session begins, with its seeds, levers, hooks and profilers."""

import atexit
import gc
import multiprocessing
import os
import random
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe import hooks, unseen
from hotlap.probe.bootstrap import follow
from hotlap.probe.imports import after_import
from hotlap.probe.run_builder import partial_writer
from hotlap.probe.session import Session
from hotlap.record import Plan

_OURS = str(Path(__file__).resolve().parents[1]) + "/"


def start(plan: Plan) -> Session:
    """Torch has just been imported: seed, install the levers and the hooks."""
    seed(plan)
    if not plan.whole:
        _keep_sockets_in(Path(plan.out) / "mp")
    session = Session(plan)
    session.arms.install()
    patch = Patch()
    try:
        hooks.install(session, patch)
        session.windows.install(session, patch)
        if plan.evidence:
            session.printed.install(patch, session.guard, lambda: session.steps)
            session.states.install(patch, session.guard, lambda: session.steps)
    except Exception:
        patch.undo()
        raise
    if session.survives:
        session.windows.each_step += (session.guard(partial_writer(session), "the record on the way"),)
    atexit.register(session.shutdown.script_ends)
    after_import("torch._dynamo", unseen.by_dynamo)
    os.register_at_fork(after_in_child=session.guard(session.shutdown.forked, "a fork of the process"))
    follow(session)
    show = sys.excepthook
    failed = session.guard(session.shutdown.failed, "the script's error")
    ours_out = session.guard(without_ours, "the script's error", instead=lambda error: error.__traceback__)

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        failed(error)
        show(kind, error, ours_out(error))

    sys.excepthook = excepthook
    if plan.evidence:
        # What is looked for among all objects that are alive is made from here on; there are a million of others.
        gc.freeze()
    return session


# A socket's path has 107 bytes on Linux (unix(7)), and 103 on macOS; its name there has 18.
_LONGEST_FOLDER = 85


def _keep_sockets_in(folder: Path) -> None:
    """Those of multiprocessing's workers: each keeps them in a folder of its own, which one that is killed leaves."""
    if len(os.fsencode(folder)) <= _LONGEST_FOLDER:
        folder.mkdir(exist_ok=True)
        vars(multiprocessing.current_process())["_config"].setdefault("tempdir", str(folder))


def seed(plan: Plan) -> None:
    """All generators, for a script that sets none."""
    if plan.seed is not None:
        number = plan.seed + plan.reseed
        random.seed(number)
        torch.manual_seed(number)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(number % 2**32)


def without_ours(error: BaseException) -> TracebackType | None:
    """Take our frames out of the traceback of `error` and of what it came from; its own new traceback."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _filtered(one.__traceback__)
        pending += [one.__cause__, one.__context__]
    return error.__traceback__


def _filtered(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    for one, following in zip(kept, [*kept[1:], None], strict=True) if kept else ():
        one.tb_next = following
    return kept[0] if kept else None
