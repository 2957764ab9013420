"""Torch has just been imported: a session begins, with its seeds, levers, hooks and watches."""

import atexit
import functools
import os
import sys
from typing import Any

import torch

from hotlap.levers.lever import Patch
from hotlap.probe import hooks, offspring, traces, unseen
from hotlap.probe.arms import Arms
from hotlap.probe.facts import seed_everything
from hotlap.probe.imports import after_import
from hotlap.probe.partial import Partial
from hotlap.probe.session import Session
from hotlap.record import Plan


def start(plan: Plan) -> Session:
    """Torch has just been imported: seed, install the levers and the hooks."""
    if plan.seed is not None:
        seed_everything(plan.seed + plan.reseed)
    session = Session(plan)
    session.arms.install_always()
    patch = Patch()
    hooks.install(session, patch)
    session.windows.install(session, patch)
    if plan.whole:
        session.windows.each_step += (Partial(session).step_ended,)
    atexit.register(session.ending.script_ends)
    after_import("torch._dynamo", unseen.by_dynamo)
    os.register_at_fork(after_in_child=session.ending.forked)
    offspring.follow(session)
    show = sys.excepthook

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        session.ending.failed(error)
        show(kind, error, traces.without_ours(error))

    sys.excepthook = excepthook
    return session


def start_levers(plan: Plan) -> None:
    """Torch has just been imported in a training for real: its levers are put to work, and nothing else is done."""
    arms = Arms(plan)
    arms.install_always()
    construct = torch.optim.Optimizer.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that method
        construct(self, *args, **kwargs)
        arms.optimizer_made(self)

    Patch().set(torch.optim.Optimizer, "__init__", __init__)
    for text in arms.not_installed:
        sys.stderr.write(f"hotlap: not at work here: {text}\n")
