"""What is left of a process -> Run: the probe's record if there is one, and a sentence about what went wrong."""

import signal
from dataclasses import replace

from hotlap.errors import RecordError
from hotlap.launch.workplace import Workplace
from hotlap.record import Run, Status, load

# What the user is shown of a script's output.
_SHOWN = 8000


def outcome(place: Workplace, *, status: Status | None, exit_code: int, stdout: str, stderr: str) -> Run:
    """The Run of an ended process. `status`: what the parent decided (HUNG, LAPSED); None if it let it run."""
    run = _recorded(place)
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
        return replace(run, status=Status.KILLED, error=killed_by(-exit_code), exit_code=exit_code)
    if exit_code > 0 or run.status is Status.CRASHED:
        error = run.error or _last_line(stderr) or f"it left with exit code {exit_code}"
        return replace(run, status=Status.CRASHED, error=error, exit_code=exit_code)
    if not seen:
        return replace(run, error=_silent(place), exit_code=exit_code)
    return replace(run, error="it came to its end", exit_code=exit_code)


def _recorded(place: Workplace) -> Run | None:
    records = place.records()
    if not records:
        return None
    try:
        return load(records[0], Run)
    except RecordError:
        return None


def _sentence(status: Status, place: Workplace) -> str:
    steps = place.progress.steps
    if status is Status.LAPSED:
        return f"its time was over after {steps} steps"
    return f"it made {steps} training steps and then none for too long" if steps else "it made no training step in time"


def killed_by(number: int) -> str:
    """What is said of a process that a signal ended."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = "; the system kills like that when memory runs out" if number == signal.SIGKILL else ""
    return f"it was ended by {name}{hint}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


def _silent(place: Workplace) -> str:
    told = place.no_probe()
    if told:
        return f"the Python that it started cannot load hotlap ({told}); install hotlap there"
    return "it never imported torch in a Python that hotlap could reach"
