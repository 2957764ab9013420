"""Trainings of the lab's own, run under the probe as any user's script would be."""

import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hotlap.cli.workbench import levers_environment
from hotlap.errors import HotlapError
from hotlap.launch import Launcher
from hotlap.predict import Workload
from hotlap.record import LeverSpec, Phase, Plan, Run, Status, decode

_SCRIPTS = Path(__file__).parent / "scripts"
# A run that makes no step for so long is given up.
_TIMEOUT_S = 180.0
# Beyond this even a slow machine is done with any of the lab's trainings.
_LIMIT_S = 900.0
_UNSETTLED = 3
# Between two looks at the memory of all processes.
_LOOK_S = 0.5


class TrainingFailed(HotlapError):  # noqa: N818 - reads as the sentence "the training failed"
    """A training of the lab's own came to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A training that ran to its end."""

    run: Run
    told: dict[str, Any]
    """What the script wrote about itself."""
    memory: tuple[tuple[float, int], ...]
    """(seconds since the start, bytes of all its processes, shared pages counted once)."""


class Bench:
    """One script of the lab in a folder of its own: as a user's, it lies outside of every package."""

    def __init__(self, script: str, launcher: Launcher, folder: Path, results: Path) -> None:
        self.script = folder / script
        self.launcher = launcher
        self.folder = folder
        self.results = results
        """A folder that runs may write to for real."""
        self._count = 0

    def command(self, *words: str) -> tuple[str, ...]:
        """What is started."""
        return (sys.executable, str(self.script), *words)

    def plan(self, *words: str, steps: int, warmup: int, watches: Sequence[str] = (), block: int = 11) -> Plan:
        """Some of its steps."""
        return Plan(
            command=self.command(*words),
            cwd=str(self.folder),
            out="",
            steps=steps,
            warmup=warmup,
            block=block,
            watches=tuple(watches),
        )

    def run(self, plan: Plan) -> Run:
        """One run, with steps.

        Raises:
            TrainingFailed: there are none.
        """
        (found,) = self.launcher([plan], limit_s=_LIMIT_S)
        if not found.step_s or found.status in (Status.CRASHED, Status.KILLED, Status.HUNG):
            last = (found.output.strip() or "no message").splitlines()[-1]
            raise TrainingFailed(f"{self.script.name} came to nothing: {found.error}. {last}")
        return found

    def traced(self, *words: str, steps: int = 12, warmup: int = 3) -> tuple[Run, Workload]:
        """Some steps, and one of them operator by operator."""
        run = self.run(self.plan(*words, steps=steps, warmup=warmup, watches=("workload",)))
        return run, workload_of(run)

    def finished(self, *words: str, levers: Sequence[LeverSpec] = ()) -> Finished:
        """To its end, watched from outside."""
        self._count += 1
        out = self.results / f"{self._count}.json"
        plan = Plan(
            command=self.command(*words, "--out", str(out)),
            cwd=str(self.folder),
            out="",
            warmup=0,
            always=tuple(levers),
            whole=True,
        )
        with MemoryWatch() as memory:
            run = self.run(plan)
        if not out.exists():
            raise TrainingFailed(f"{self.script.name} did not come to its end: {run.error}.")
        return Finished(run=run, told=json.loads(out.read_text()), memory=tuple(memory.seen))


@contextmanager
def bench(script: str) -> Iterator[Bench]:
    """A copy of the lab's `script`, and a launcher for it."""
    with tempfile.TemporaryDirectory(prefix="hotlap-lab-") as scratch:
        folder, results = Path(scratch) / "script", Path(scratch) / "results"
        folder.mkdir()
        results.mkdir()
        shutil.copyfile(_SCRIPTS / script, folder / script)
        with Launcher(environment=levers_environment, folders=[folder], timeout_s=_TIMEOUT_S) as launcher:
            yield Bench(script, launcher, folder, results)


def workload_of(run: Run) -> Workload:
    """The step that a run traced, with what its batches take.

    Raises:
        TrainingFailed: it traced none.
    """
    if run.workload is None:
        raise TrainingFailed(f"No step could be traced: {' '.join(run.notes) or run.error}.")
    return decode(run.workload.encode(), Workload).validated()


def waits_s(run: Run) -> float:
    """Mean time a step waits for its batch, but for the very first ones."""
    return _settled_s(run.phase_s.get(Phase.INPUT) or ())


def waiting_share(run: Run) -> float:
    """The same as a part of the step, in [0, 1]."""
    step_s = _settled_s(run.step_s)
    return waits_s(run) / step_s if step_s > 0 else 0.0


def _settled_s(seconds: Sequence[float]) -> float:
    """Mean without the first steps, in which libraries wake up: a whole run has no warm-up that is thrown away."""
    kept = seconds[_UNSETTLED:] or seconds
    return sum(kept) / len(kept) if kept else 0.0


@dataclass
class MemoryWatch:
    """Memory of all processes below this one, while it is open; a thread of its own looks."""

    seen: list[tuple[float, int]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        begun = time.monotonic()
        while not self._stop.wait(_LOOK_S):
            total = _below()
            if total:
                self.seen.append((time.monotonic() - begun, total))


def _below() -> int:
    """Bytes of all descendants; a page that several share counts once (PSS), where the system tells."""
    import psutil

    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            found = process.memory_full_info()
        except (psutil.Error, OSError):
            continue
        total += int(getattr(found, "pss", 0) or found.rss)
    return total
