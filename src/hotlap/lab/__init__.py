"""The founding experiments as commands, one file each: what they ask, and which options each of them takes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One founding document as something that can be run."""

    name: str
    asks: str
    """In one line: the question that it answers."""
    takes: tuple[str, ...] = ("gpu", "budget", "html")
    """Options beside --quick and --json that change something here, and "script": one of the user's."""

    def run(self, settings: Settings, doing: Doing) -> "Result":
        """Do it: minutes, or some seconds with `settings.quick`."""
        begun, created = time.monotonic(), datetime.now(UTC)
        module = import_module(f"hotlap.lab.{self.name.replace('-', '_')}")
        found: Result = module.run(settings, doing)
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


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        name="transfer",
        asks="from which size on does a matrix product gain by a GPU, copies counted?",
        takes=("gpu",),
    ),
    Experiment(
        name="launch-floor",
        asks="what does a call cost before it computes anything, and which model lies below that?",
        takes=("gpu",),
    ),
    Experiment(
        name="pinning",
        asks="MNIST in five epochs: what do workers and pinned memory bring, and what do they cost?",
        takes=("data", "budget", "html"),
    ),
    Experiment(
        name="devices",
        asks="MNIST in ten epochs: from which model size on does a GPU pay?",
        takes=("gpu", "data"),
    ),
    Experiment(name="lorenz", asks="a neural ODE of the Lorenz system: how long does an iteration take and with what?"),
    Experiment(name="transformer", asks="why do the cores stay at 60%, what helps here, what would other GPUs do?"),
    Experiment(
        name="link",
        asks="what would a slower link between machines cost a training by several processes?",
        takes=(),
    ),
    Experiment(
        name="checklist",
        asks="which of the usual recommendations helps my script, and by how much?",
        takes=("gpu", "budget", "html", "script"),
    ),
)


def by_name(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UserError: there is none.
    """
    found = {experiment.name: experiment for experiment in EXPERIMENTS}
    if name not in found:
        raise UserError(f"There is no experiment {name!r} in the lab. Known: {', '.join(found)}.")
    return found[name]
