"""A stage for one profiler: what it needs of a session, and a script that is stepped through by hand."""

from collections.abc import Callable
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any, cast

import torch

from hotlap.levers.lever import Patch
from hotlap.probe.clock import StepSpans, Stretch
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.session import Session
from hotlap.record import LoaderFacts, Phase


class Clock:
    """Always in the phase that a test sets."""

    def __init__(self) -> None:
        self.now = Phase.OTHER
        self.callers: dict[Phase, set[CodeType]] = {}
        self.last: StepSpans | None = None
        self.last_spent: list[float] | None = None

    def phase(self) -> Phase:
        return self.now

    def last_s(self) -> float:
        return 1e-3


class Facts:
    """No optimizer, nothing compiled."""

    compiled = anomaly_mode = False

    def optimizers(self) -> list[torch.optim.Optimizer]:
        return []

    def parameters(self) -> list[torch.Tensor]:
        return []

    def device(self) -> torch.device:
        return torch.device("cpu")

    def loader_facts(self, *, sample: bool) -> list[LoaderFacts]:
        return []


class Stage:
    """What a profiler asks of its session."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.facts = Facts()
        self.plan = SimpleNamespace(whole=False)
        self.script = SimpleNamespace(on_batch=[], on_forward=[])
        self.shutdown = SimpleNamespace(is_fork=False)
        self.collectives = SimpleNamespace(rank=0, active=False)
        self.ledger = SimpleNamespace(
            phase_s=lambda: [1.0] * len(Phase),
            is_validation=lambda stretch: True,
            start_s=lambda: 0.0,
        )
        self.out = Path("nowhere")

    def validated(self, at: tuple[float, float] | None) -> None:
        """The step that is over held a validation, from begin to end; None: it held none."""
        self.clock.last = None
        if at is not None:
            away = Stretch([0.0] * len(Phase), num_looks=1, num_samples=0, at=at)
            self.clock.last = StepSpans(begin=at[0], end=at[1], aside=away)


def play(
    profiler: Profiler, step: Callable[[], object], *, stage: Stage | None = None, num_steps: int = 4
) -> dict[str, Any]:
    """Let `profiler` look at some steps; its fields, when its window is over."""
    patch = Patch()
    profiler.install(cast(Session, stage or Stage()), patch)
    made = 0
    try:
        while profiler.goes_on() and made < min(num_steps, profiler.num_steps):
            step()
            made += 1
    finally:
        profiler.close()
        patch.undo()
    return dict(profiler.fields())
