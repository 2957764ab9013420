"""What is left of a process -> Run: the probe's record if there is one, and a sentence about what went wrong."""

import contextlib
import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hotlap.errors import RecordError
from hotlap.launch import ranks
from hotlap.launch.workplace import Workplace
from hotlap.record import RankLog, Run, Status, load
from hotlap.units import plural

T = TypeVar("T")

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
_LIBRARY = re.compile(r"(?:site|dist)-packages|/lib/python\d|/hotlap/probe/")

# What the user is shown of a script's output.
_SHOWN = 8000


def outcome(place: Workplace, *, status: Status | None, exit_code: int, stdout: str, stderr: str) -> Run:
    """The Run of an ended process. `status`: what the parent decided (HUNG, LAPSED); None if it let it run."""
    run = recorded(place.out)
    seen = run is not None
    if run is None:
        run = Run(status=Status.SILENT, arms=place.plan.arms, always=place.plan.always, seed=place.plan.seed)
    output = (stderr.strip() or stdout.strip())[-_SHOWN:]
    run = replace(run, output=output)
    if run.status in (Status.COMPLETE, Status.LAPSED) and seen:
        return replace(run, exit_code=None)
    if status is not None:
        return replace(run, status=status, error=_sentence(status, place), exit_code=None)
    if exit_code < 0:
        error = killed_by(-exit_code) + _place_of_death(stderr)
        return replace(run, status=Status.KILLED, error=error, exit_code=exit_code)
    if exit_code > 0 or run.status is Status.CRASHED:
        error = run.error or _last_line(stderr) or f"it left with exit code {exit_code}"
        return replace(run, status=Status.CRASHED, error=error, exit_code=exit_code)
    if not (seen or place.plan.only_levers):
        return replace(run, error=_silent(place), exit_code=exit_code)
    return replace(run, status=Status.ENDED, error="it came to its end", exit_code=exit_code)


def recorded(out: Path) -> Run | None:
    """The run of all processes that trained; of those that did not, where none did; None where nobody wrote."""
    runs = _completed(out, "run-*.json")
    if runs:
        return ranks.merge(runs, list(_readable(sorted(out.glob("rank-*.json")), RankLog)))
    idle = list(_readable(sorted(out.glob("idle-*.json"), key=_written_ns), Run))
    # A launcher fails when the script that it launched has failed: the first one to fail knows why.
    return next((run for run in idle if run.status is Status.CRASHED), idle[-1] if idle else None)


def on_the_way(out: Path) -> Run | None:
    """The record that the process wrote last while it trained."""
    return next(iter(_completed(out, "partial-*.json")), None)


def _completed(out: Path, names: str) -> list[Run]:
    """Runs of that name in the order in which they were written, with what the traces beside them tell."""
    runs = list(_readable(sorted(out.glob(names), key=_written_ns), Run))
    if any(out.glob("operators-*.json")):
        from hotlap.trace.window import completed  # numpy takes its time

        runs = [completed(run, out / f"operators-{run.rank}.json") for run in runs]
    return runs


def _written_ns(path: Path) -> int:
    return path.stat().st_mtime_ns


def _readable(paths: Iterable[Path], kind: type[T]) -> Iterator[T]:
    for path in paths:
        with contextlib.suppress(RecordError):
            yield load(path, kind)


def _sentence(status: Status, place: Workplace) -> str:
    steps = place.progress.steps
    if status is Status.LAPSED:
        return f"its time was over after {plural(steps, 'step')}"
    if not steps:
        return "it made no training step in time"
    return f"it made {plural(steps, 'training step')} and then none for too long"


def killed_by(number: int) -> str:
    """What is said of a process that a signal ended."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = "; the system kills like that when memory runs out" if number == signal.SIGKILL else ""
    return f"it was ended by {name}{hint}"


def _place_of_death(stderr: str) -> str:
    """ ", in train.py, line 14": where Python stood when native code failed, as its faulthandler writes it, innermost
    first."""
    told = stderr.rpartition("Fatal Python error")[2].partition("Current thread")[2].partition("\n\n")[0]
    frames = [(path, line) for path, line in _FRAME.findall(told) if not _LIBRARY.search(path)]
    return f", in {Path(frames[0][0]).name}, line {frames[0][1]}" if frames else ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


def _silent(place: Workplace) -> str:
    told = place.no_probe()
    if told:
        return f"the Python that it started cannot load hotlap ({told}); install hotlap there"
    return "it never imported torch in a Python that hotlap could reach"
