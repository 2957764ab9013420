"""How the end-to-end tests run a script under the probe, and what they ask of every run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from hotlap import record
from hotlap.launch import Launcher
from hotlap.levers.lever import Lever
from hotlap.record import Phase, Plan, Run, decode, encode
from hotlap.source import patch

SCRIPTS = Path(__file__).with_name("scripts")
OURS = str(Path(record.__file__).parents[1])
"""The folder of the package: no traceback of a script shows it."""


def run_command(
    launcher: Launcher,
    *command: str,
    steps: int = 60,
    warmup: int = 10,
    limit_s: float = 400.0,
    whole: bool = False,
    profilers: tuple[str, ...] = (),
) -> Run:
    """One run of a command in the folder of the scripts."""
    plan = Plan(command=command, cwd=str(SCRIPTS), out="", steps=steps, warmup=warmup, whole=whole, profilers=profilers)
    (found,) = launcher([plan], limit_s=limit_s)
    return found


class Forks:
    """Runs any script in a fork of one process that has imported torch: in 0.3 s of a core, not two or three.

    To a script a fork is a process of its own, bit for bit (test_template.py). Runs with profilers are forks here as
    well, and the script's text stands in the place of `place` in our folder, behind a line with its arguments.
    """

    def __init__(self, launcher: Launcher, place: str) -> None:
        starter = launcher._starter
        may_be_fork = starter._may_be_fork

        def with_any_profilers(plan: Plan) -> bool:
            return may_be_fork(replace(plan, profilers=()))

        setattr(starter, "_may_be_fork", with_any_profilers)  # noqa: B010 - a plain assignment is a type error
        self._launcher = launcher
        self.place = SCRIPTS / place
        self._launcher([self._plan()], limit_s=400.0)  # the first run tells what the others import

    def __call__(self, script: str | Path, *args: str, **settings: Any) -> Run:
        """One run of a script of ours, or of another one whose path is absolute; `settings` of its plan."""
        (found,) = self.together(script, settings, args=args)
        return found

    def by_two(self, script: str | Path, *args: str, **settings: Any) -> Run:
        """One run by two processes. What is no matter of torchrun costs a tenth of it where forks, which have imported
        all, find what torchrun tells its processes."""
        replaced = {str(self.place): self.text(script, *args, by_two=True)}
        (found,) = self._launcher([self._plan(replaced=replaced, **settings)], limit_s=400.0)
        return found

    def together(self, script: str | Path, *each: Mapping[str, Any], args: Sequence[str] = ()) -> list[Run]:
        """Runs at the same time, one for each settings of a plan."""
        replaced = {str(self.place): self.text(script, *args)}
        return self._launcher([self._plan(replaced=replaced, **settings) for settings in each], limit_s=400.0)

    def text(self, script: str | Path, *args: str, by_two: bool = False) -> str:
        """What is run in the place of the script at `place`."""
        split = "import as_torchrun; as_torchrun.split(); " if by_two else ""
        return f"{split}import sys; sys.argv[1:] = {list(args)}\n{(SCRIPTS / script).read_text()}"

    def _plan(self, **settings: Any) -> Plan:
        command = (sys.executable, str(self.place))
        return Plan(command=command, cwd=str(SCRIPTS), out="", **{"steps": 60, "warmup": 10, **settings})


@contextmanager
def opened_forks(place: str = "forked.py") -> Iterator[Forks]:
    """In the environment of now, but for the name of the test: all runs must have the same."""
    with Launcher(
        environment=lambda plan: {"PYTEST_CURRENT_TEST": "any"}, folders=[SCRIPTS], timeout_s=400.0, templates=True
    ) as launcher:
        yield Forks(launcher, place)


def of_a_file(forks: Forks, found: Run, name: str, *args: str, by_two: bool = False, folder: Path) -> Run:
    """A run of a script as a fork, as if it had been one of a file in `folder` that can be edited."""
    path = folder / "plain.py"
    path.write_text(forks.text(name, *args, by_two=by_two))
    return decode(encode(found).replace(str(forks.place).encode(), str(path).encode()), Run)


def edited(run: Run, levers: tuple[Lever, ...]) -> str:
    """The script's text with what these levers write."""
    (text,) = patch([edit for lever in levers for edit in lever.edits(run)], root=SCRIPTS).texts.values()
    return text


def assert_phases_sum_to_steps(found: Run) -> None:
    """Within 1% of the wall time, in each step."""
    for i, step_s in enumerate(found.step_s):
        parts = sum(values[i] for values in found.phase_s.values() if values is not None)
        assert parts == pytest.approx(step_s, rel=0.01)


def median_ms(found: Run, phase: Phase) -> float:
    """Of a phase that was measured, in milliseconds."""
    values = found.phase_s[phase]
    assert values, f"{phase} was not measured"
    return 1e3 * median(values)


def hotlap(*words: str, cwd: Path, stdin: str | None = None, timeout: float = 400) -> subprocess.CompletedProcess[str]:
    """The command as a user types it, in this folder."""
    return subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        cwd=cwd,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def wait_for(there: Callable[[], object], *, what: str, limit_s: float = 240.0) -> None:
    """Until it is there; an AssertionError says what did not come."""
    deadline = time.monotonic() + limit_s
    while not there():
        assert time.monotonic() < deadline, f"no {what} within {limit_s:.0f} s"
        time.sleep(0.2)


def place(name: str, folder: Path) -> Path:
    """Copy one of our scripts into `folder`."""
    path = folder / name
    path.write_text((SCRIPTS / name).read_text())
    return path


def names(folder: Path) -> set[str]:
    """What lies in `folder`."""
    return {path.name for path in folder.iterdir()}


def left_over(folder: Path) -> list[str]:
    """Command lines of processes that still run in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.cwd() == str(folder):
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found
