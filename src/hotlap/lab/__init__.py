"""The founding experiments as commands, one file each: its docstring says what it asks, `TAKES` its options."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hotlap
from hotlap import machine
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.lab.result import Result

__all__ = ["EXPERIMENTS", "Doing", "Experiment", "Settings", "by_name"]

Doing = Callable[[str], None]
"""Told what is being done now, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user wishes. None, and empty, mean: the experiment's own choice."""

    quick: bool = False
    """Smaller and fewer: under 20 s."""
    gpu: tuple[str, ...] = ()
    """Names of GPUs to predict for, as the catalogue knows them."""
    data: Path | None = None
    """Folder with MNIST's idx files."""
    budget_s: float | None = None
    """For the part in which changes are tried."""
    words: tuple[str, ...] = ()
    """The user's script with its arguments."""

    def tries_s(self, usual_s: float, *, quick_s: float = 5.0) -> float:
        """Seconds for what is tried."""
        return self.budget_s or (quick_s if self.quick else usual_s)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One founding document as something that can be run: the file of its name."""

    name: str

    @property
    def file(self) -> Any:
        """With `run(settings, doing) -> Result`, and `TAKES`."""
        return import_module(f"hotlap.lab.{self.name.replace('-', '_')}")

    @property
    def asks(self) -> str:
        """In one line: the question that it answers."""
        return str(self.file.__doc__).partition(": ")[2]

    @property
    def takes(self) -> tuple[str, ...]:
        """Options beside --quick and --json that change something here, and "script": one of the user's."""
        found: tuple[str, ...] = self.file.TAKES
        return found

    def run(self, settings: Settings, doing: Doing) -> "Result":
        """Do it: minutes, or some seconds with `settings.quick`."""
        begun, created = time.monotonic(), datetime.now(UTC)
        found: Result = self.file.run(settings, doing)
        return replace(
            found,
            name=self.name,
            asks=self.asks,
            quick=settings.quick,
            hotlap=hotlap.__version__,
            created=created.isoformat(timespec="seconds"),
            machine=machine.look(),
            elapsed_s=time.monotonic() - begun,
        )


EXPERIMENTS: tuple[Experiment, ...] = tuple(map(Experiment, (
    "transfer", "launch-floor", "pinning", "devices", "lorenz", "transformer", "link", "checklist",
)))  # fmt: skip


def by_name(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UserError: there is none.
    """
    found = {experiment.name: experiment for experiment in EXPERIMENTS}
    if name not in found:
        raise UserError(f"There is no experiment {name!r} in the lab. Known: {', '.join(found)}.")
    return found[name]
