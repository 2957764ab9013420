"""This process becomes the user's command, under the levers of a plan: streams, signals and exit code are its own."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from hotlap.errors import UserError
from hotlap.launch.workplace import site_environment
from hotlap.record import Plan, save

# Python ignores these from its start on, and what is ignored stays so in what a process becomes.
_IGNORED_BY_PYTHON = tuple(getattr(signal, name) for name in ("SIGPIPE", "SIGXFSZ") if hasattr(signal, name))


def become(plan: Plan, *, environment: Mapping[str, str]) -> NoReturn:
    """Start `plan.command` in place of this process. `environment`: what the plan's levers want in it.

    The plan stays in `plan.out`, for the processes that the command may start.

    Raises:
        UserError: the plan cannot be written, or the command cannot be started.
    """
    folder = Path(plan.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        save(plan, folder / "plan.json")
    except OSError as error:
        raise UserError(f"The levers cannot be noted in {folder}: {error.strerror}.") from None
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    for number in _IGNORED_BY_PYTHON:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(plan.command[0], plan.command, dict(os.environ) | site_environment(folder) | dict(environment))
    except OSError as error:
        raise UserError(f"{plan.command[0]} cannot be started: {error.strerror}.") from None
