"""A script is run while the profiler follows its gradients -> the record that levers see."""

import contextlib
import hashlib
import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from types import ModuleType, SimpleNamespace
from typing import cast

from torch.nn.modules import module as of_torch

from hotlap.levers.lever import Patch
from hotlap.probe.facts import Facts
from hotlap.probe.profilers import gradients
from hotlap.probe.profilers.gradients import Gradients
from hotlap.probe.session import Session
from hotlap.record import Phase, Run
from tests.sample_runs import optimizer, run_with


class Stage:
    """What the profiler asks of its session; a script's steps are not counted."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.steps = 0
        self.in_backward = False
        self.thread = SimpleNamespace(id=get_ident())
        self.collectives = SimpleNamespace(active=False)
        self.script = SimpleNamespace(on_forward=[])

    def own(self, work: Callable[[], None]) -> None:
        work()


def observed(path: Path, *, stage: Stage | None = None) -> Run:
    """The run of a script that prints what it has learned."""
    stage = stage or Stage()
    profiler, patch = Gradients(), Patch()
    profiler.install(cast(Session, stage), patch)
    (told,) = stage.script.on_forward
    handle = of_torch.register_module_forward_hook(told, with_kwargs=True)
    # `remove` leaves its mark (torch 2.13), and torch.compile then warns of hooks that are gone.
    patch.on_undo(of_torch._global_forward_hooks_with_kwargs.clear)
    patch.on_undo(handle.remove)
    patch.set(gradients, "called_through", lambda: "")  # torch calls the hook, in a training the probe does
    try:
        played(path)
        profiler.fields()
    finally:
        patch.undo()
    phases = {Phase.FORWARD: 0.010, Phase.BACKWARD: 0.012, Phase.OPTIMIZER: 0.006, Phase.OTHER: 0.002}
    return replace(
        run_with(phases=phases),
        optimizers=(optimizer(),),
        call_sites=tuple(stage.facts.call_sites),
        sources={str(path): hashlib.sha256(path.read_bytes()).hexdigest()},
    )


def played(path: Path) -> str:
    """What the script prints, run as the main one."""
    main, before = ModuleType("__main__"), sys.modules["__main__"]
    main.__file__ = str(path)
    out = io.StringIO()
    sys.modules["__main__"] = main
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(path.read_text(), str(path), "exec"), vars(main))
    finally:
        sys.modules["__main__"] = before
    return out.getvalue()
