"""What is left of a process -> Run: the probe's record if there is one, and a sentence about what went wrong."""

import contextlib
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hotlap.errors import RecordError
from hotlap.launch import ranks
from hotlap.launch.streams import last_line
from hotlap.launch.workplace import Workplace
from hotlap.record import Phase, Run, Status, load
from hotlap.record.progress import Progress
from hotlap.record.spans import SpanRing, Step, with_steps
from hotlap.units import plural

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in ', re.MULTILINE)
_LIBRARY = re.compile(r"(?:site|dist)-packages|/lib/python\d|/hotlap/probe/")

_BEGUN = {
    Phase.INPUT: "drawing a batch",
    Phase.FORWARD: "a forward pass",
    Phase.BACKWARD: "a backward pass",
    Phase.OPTIMIZER: "an optimizer's step",
}

# What the user is shown of a script's output.
_SHOWN = 8000


def outcome(place: Workplace, *, status: Status | None, exit_code: int, stdout: str, stderr: str) -> Run:
    """The Run of an ended process. `status`: what the parent decided (HUNG, LAPSED); None if it let it run."""
    run = left(place.out)
    seen = run is not None
    if run is None:
        run = Run(status=Status.SILENT, arms=place.plan.arms, always=place.plan.always, seed=place.plan.seed)
    output = (stderr.strip() or stdout.strip())[-_SHOWN:]
    run = replace(run, output=output)
    if run.status in (Status.COMPLETE, Status.LAPSED) and seen:
        return replace(run, exit_code=None)
    if status is not None:
        return replace(run, status=status, error=_sentence(status, place), exit_code=None)
    if not seen and place.progress.num_left:
        exit_code = 0  # it was ended by us, for it had nothing more to write
    if exit_code or run.status is Status.CRASHED:
        return ended(run, exit_code, place.progress, stderr)
    if not (seen or place.plan.only_levers):
        return replace(run, error=silent(place.out), exit_code=exit_code)
    return replace(run, status=Status.ENDED, error="it came to its end", exit_code=exit_code)


def ended(run: Run, exit_code: int, progress: Progress, stderr: str = "") -> Run:
    """As it was killed, or left with an error."""
    if exit_code < 0:
        error = _killed_by(-exit_code, _place_of_death(stderr) + _reached(progress))
        return replace(run, status=Status.KILLED, error=error, exit_code=exit_code)
    error = run.error or last_line(stderr) or f"it left with exit code {exit_code}"
    return replace(run, status=Status.CRASHED, error=error, exit_code=exit_code)


def left(out: Path) -> Run | None:
    """The run of all processes that trained; where none of them came to its end, what one wrote last on its way, with
    its last spans; of those that did not train, where none did; None where nobody wrote."""
    run = None
    if runs := _completed(out, "run-*.json"):
        run = ranks.merge(runs)
        if run.first_steps_s or run.step_s:
            return run
    partial = next(iter(_completed(out, "partial-*.json")), None)
    made = list(_made(out))
    if partial is not None and made:
        return with_steps(partial, max(made, key=lambda steps: steps[-1].end))
    return partial or run or _idle(out)


def _idle(out: Path) -> Run | None:
    """A launcher fails when the script that it launched has failed: the first one to fail knows why."""
    idle = list(_records(out, "idle-*.json"))
    return next((run for run in idle if run.status is Status.CRASHED), idle[-1] if idle else None)


def _made(out: Path) -> Iterator[list[Step]]:
    """The last steps of each process that made some; one may have been killed before its file was whole."""
    for path in out.glob("spans-*"):
        with contextlib.suppress(OSError):  # a full disk
            if steps := SpanRing(path).steps():
                yield steps


def _reached(progress: Progress) -> str:
    """ " after 2 training steps, in or after a backward pass". Empty where no step was made."""
    return f" after {plural(progress.steps, 'training step')}{_begun(progress)}" if progress.steps else ""


def _begun(progress: Progress) -> str:
    """What had been begun last, which is known of one that trains alone."""
    phase = progress.reached if progress.processes == 1 else None
    return "" if phase is None else f", in or after {_BEGUN[phase]}"


def _completed(out: Path, names: str) -> list[Run]:
    """With what the traces beside them tell."""
    runs = list(_records(out, names))
    if any(out.glob("operators-*.json")):
        from hotlap.trace.window import completed  # numpy takes its time

        runs = [completed(run, out / f"operators-{run.rank}.json") for run in runs]
    return runs


def _records(out: Path, names: str) -> Iterator[Run]:
    """Runs of that name that can be read, in the order in which they were written."""
    for path in sorted(out.glob(names), key=lambda path: path.stat().st_mtime_ns):
        with contextlib.suppress(RecordError):
            yield load(path, Run)


def _sentence(status: Status, place: Workplace) -> str:
    progress, steps = place.progress, place.progress.steps
    if status is Status.LAPSED:
        return f"its time was over after {plural(steps, 'step')}"
    if not steps and progress.reached is Phase.OPTIMIZER:
        return "it made no whole training step in time, in which each of its optimizers steps"
    if not steps:
        return f"it made no training step in time{_begun(progress)}"
    return f"it made {plural(steps, 'training step')} and then none for too long"


def _killed_by(number: int, where: str) -> str:
    """What is said of a process that a signal ended; `where` with its comma or space."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = "; the system kills like that when memory runs out" if number == signal.SIGKILL else ""
    return f"it was ended by {name}{where}{hint}"


def _place_of_death(stderr: str) -> str:
    """ ", in train.py, line 14": where Python stood when native code failed, as its faulthandler writes it, innermost
    first."""
    told = stderr.rpartition("Fatal Python error")[2].partition("Current thread")[2].partition("\n\n")[0]
    frames = [(path, line) for path, line in _FRAME.findall(told) if not _LIBRARY.search(path)]
    return f", in {Path(frames[0][0]).name}, line {frames[0][1]}" if frames else ""


def silent(out: Path) -> str:
    """Why nobody wrote anything."""
    told = out / "no-probe"
    if told.exists():
        text = told.read_text(encoding="utf-8", errors="replace").strip()
        if text.startswith("hotlap "):
            return f"{text.splitlines()[0]} (please report it)"
        return f"the Python that it started cannot load hotlap ({text}); install hotlap there"
    return "it never imported torch in a Python that hotlap could reach"
