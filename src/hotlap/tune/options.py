"""What the user asked of a study, and the seams through which it acts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hotlap.record import Plan, Run, Study


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a study may do."""

    command: tuple[str, ...]
    """What is started, word by word."""
    cwd: str
    title: str
    """What messages call it: "train.py"."""
    budget_s: float = 300.0
    long_budget_s: float | None = None
    """What it becomes where steps or starts are long, or runs differ much; None: it stays as it is."""
    timeout_s: float = 120.0
    """A run that makes no step for so long is given up."""
    levers: tuple[str, ...] | None = None
    """Names of the levers to try; None: all."""
    allow: tuple[str, ...] = ()
    """Names of levers that change the training itself, and may be tried all the same."""
    seed: int = 0
    horizon: int | None = None
    """Steps that the user's training makes; None: its own length, where the study sees its end."""
    memory_bytes: int | None = None
    """What caches, batches made ahead and workers may take; None: 80% of what is free."""
    more_time: str = "raise --budget"
    """What the user can do if a run was given too little time."""


class Runs(Protocol):
    """Runs plans, at the same time when there are several; `hotlap.launch.Launcher` is the real one."""

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """One Run per plan; each is asked to end after `limit_s`."""
        ...


class Observer(Protocol):
    """Told of everything as it becomes known; saves it, shows it."""

    def doing(self, text: str) -> None:
        """What is being done now, a few words."""
        ...

    def changed(self, study: Study, part: str) -> None:
        """`part` of the study is known now: "baseline", "findings", "ceilings", "noise", "trial", "result"."""
        ...
