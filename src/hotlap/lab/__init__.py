"""The founding experiments as commands, one file each: its docstring says what it asks, `TAKES` its options."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import hotlap
from hotlap import machine
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.lab.result import Result

__all__ = ["EXPERIMENTS", "Doing", "Settings", "asks", "file_of", "run"]

Doing = Callable[[str], None]
"""Told what is being done now, in a few words."""

EXPERIMENTS = ("transfer", "launch-floor", "pinning", "devices", "lorenz", "transformer", "checklist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user wishes. None, and empty, mean: the experiment's own choice."""

    quick: bool = False
    """Smaller and fewer: under a minute."""
    gpu: tuple[str, ...] = ()
    """Names of GPUs to predict for, as the catalogue knows them."""
    budget_s: float | None = None
    """For the part in which changes are tried."""
    words: tuple[str, ...] = ()
    """The user's script with its arguments."""

    def tries_s(self, usual_s: float) -> float:
        """Seconds for what is tried."""
        return self.budget_s or (10.0 if self.quick else usual_s)


def file_of(name: str) -> Any:
    """The module of an experiment, with `run(settings, doing) -> Result`, and `TAKES`: options beside --quick and
    --json that change something here, and "script": one of the user's.

    Raises:
        UserError: there is no experiment of that name.
    """
    if name not in EXPERIMENTS:
        raise UserError(f"There is no experiment {name!r} in the lab. Known: {', '.join(EXPERIMENTS)}.")
    return import_module(f"hotlap.lab.{name.replace('-', '_')}")


def asks(name: str) -> str:
    """In one line: the question that it answers."""
    return str(file_of(name).__doc__).partition(": ")[2]


def run(name: str, settings: Settings, doing: Doing) -> "Result":
    """Do it: minutes, or under one with `settings.quick`."""
    begun, created = time.monotonic(), datetime.now(UTC)
    file = file_of(name)
    found: Result = file.run(settings, doing)
    if found.study is not None and "script" not in file.TAKES:
        # The lab's own script is gone by now, so nobody can try a lever on it.
        findings = tuple(replace(one, try_levers=()) for one in found.study.findings)
        found = replace(found, study=replace(found.study, findings=findings))
    return replace(
        found,
        name=name,
        asks=asks(name),
        quick=settings.quick,
        hotlap=hotlap.__version__,
        created=created.isoformat(timespec="seconds"),
        machine=machine.look(),
        elapsed_s=time.monotonic() - begun,
    )
