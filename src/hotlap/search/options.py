"""What the user asked of a study, and who is told of it."""

from dataclasses import dataclass
from typing import Protocol

from hotlap.record import Plan, Study


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
    total_steps: int | None = None
    """Steps that the user's training makes; None: its own length, where the study sees its end."""
    memory_bytes: int | None = None
    """What caches, batches made ahead and workers may take; None: 80% of what is free."""
    more_time: str = "raise --budget"
    """What the user can do if a run was given too little time."""

    @property
    def plan(self) -> Plan:
        """The baseline; how long, and under what, is for others to fill in."""
        return Plan(command=self.command, cwd=self.cwd, out="", seed=self.seed)


class Observer(Protocol):
    """Told of everything as it becomes known; saves it, shows it."""

    def doing(self, text: str) -> None:
        """What is being done now, a few words."""
        ...

    def changed(self, study: Study, part: str) -> None:
        """`part` of the study is known now: "baseline", "findings", "ceilings", "noise", "trial", "result"."""
        ...
