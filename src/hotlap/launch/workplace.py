"""The folders of one execution: the plan, the record, the shared page, and the scratch layer over the user's tree."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

import hotlap
from hotlap.launch.reaper import delete
from hotlap.record import Plan, Turn, save
from hotlap.record.plan import encoded
from hotlap.record.progress import Progress

_PROBE = Path(hotlap.__file__).with_name("probe")
_ENCLOSE, _SITE = _PROBE / "enclose.py", _PROBE / "site"

# So that a trial neither appears among the user's experiments nor waits for a network.
_NO_TRACKERS = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "disabled",
    "COMET_START_MODE": "create",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "false",
}

# Of more than these no name is told: who writes so many writes some for each sample.
_MOST_FILES = 1000


class Workplace:
    """Made for one process of one plan, outside of the user's folders; `remove` takes everything away."""

    def __init__(self, plan: Plan, *, base: Path, number: int, folders: tuple[str, ...]) -> None:
        # As long as any other: a template writes the name of its fork over its own (`hotlap.probe.template`).
        self.out = Path(tempfile.mkdtemp(prefix=f"{number:06d}-", dir=base))
        self.marker = self.out.name
        """In the environment of every process of this run, however it detached itself."""
        self._folders = folders
        self.written: tuple[str, ...] | None = None
        """As `Run.written`; known once the layers are cleared."""
        turn = None
        if plan.turn is not None:
            turn = replace(plan.turn, ready=str(self.out / "ready"), go=str(self.out / "go"))
        self.plan = replace(plan, out=str(self.out), turn=turn)
        self.progress = Progress(self.out / "progress")
        save(self.plan, self.out / "plan.json")
        self.fifos = self._open_fifos(turn)
        self._layers = self.out / "scratch"
        self.spec = self.out / "enclose.json"
        spec = {
            "cwd": _as_utf8(plan.cwd),
            "folders": list(map(_as_utf8, folders)),
            "scratch": _as_utf8(self._layers),
            "keep": [_as_utf8(self.out)],
            "told": _as_utf8(self.out / "not-enclosed"),
            "edited": self._edited(),
            "written": _as_utf8(self.out / "written"),
        }
        self.spec.write_text(json.dumps(spec))

    def _edited(self) -> list[tuple[str, str]]:
        """(copy, place) of each file that is another one from the start, for whoever reads it: this script's own
        launcher, workers and tracebacks included."""
        found = []
        for number, (path, text) in enumerate(self.plan.replaced.items()):
            copy = self.out / f"edited-{number}"
            copy.write_bytes(encoded(text))
            found.append((_as_utf8(copy), _as_utf8(path)))
        return found

    def _open_fifos(self, turn: Turn | None) -> tuple[int, int] | None:
        if turn is None:
            return None
        for name in (turn.ready, turn.go):
            os.mkfifo(name)
        # Opened for both directions: neither side waits for the other to open, or sees an end of file.
        return os.open(turn.ready, os.O_RDWR | os.O_NONBLOCK), os.open(turn.go, os.O_RDWR)

    def command(self) -> list[str]:
        """What to start, enclosed where the system can."""
        return [sys.executable, "-I", "-S", "-X", "utf8", str(_ENCLOSE), str(self.spec), *self.plan.command]

    def environment(self, levers_environment: Mapping[str, str]) -> dict[str, str]:
        """The user's, and what the probe needs."""
        environ = dict(os.environ)
        environ |= _NO_TRACKERS
        environ |= probe_environment(self.out, marker=self.marker)
        environ |= {
            # Sets and dicts of strings iterate alike in all runs, or "same seed" would not mean the same training.
            "PYTHONHASHSEED": environ.get("PYTHONHASHSEED", "0"),
            # Where native code fails, Python says at which line of the script.
            "PYTHONFAULTHANDLER": environ.get("PYTHONFAULTHANDLER", "1"),
            # What `cached(..., disk=True)` leaves is gone with the run: each begins cold, as the user's first one does.
            "HOTLAP_CACHE": str(self.out / "cache"),
        }
        return environ | dict(levers_environment)

    def not_enclosed(self) -> str | None:
        """Why the user's folders could not be protected; None when they were."""
        told = self.out / "not-enclosed"
        return told.read_text(encoding="utf-8") if told.exists() else None

    @property
    def encloses(self) -> bool:
        """The user's folders were covered by scratch layers; to be asked once the command has started."""
        return bool(self._folders) and self.not_enclosed() is None

    def marks(self) -> tuple[int, ...]:
        """As `Run.marks`."""
        path = self.out / "marks"
        return tuple(sorted({*map(int, path.read_text(encoding="ascii").split())})) if path.exists() else ()

    def clear(self) -> None:
        """Delete what the command wrote into the covered folders; its processes have ended."""
        if self.plan.evidence and self.encloses and self._layers.is_dir():
            names = sorted(islice(self._files(), _MOST_FILES + 1))
            self.written = tuple(names) if len(names) <= _MOST_FILES else None
        delete(self._layers)

    def _files(self) -> Iterator[str]:
        """Without caches, which are hidden or compiled code, and what was deleted again."""
        for layer in self._layers.glob("*/upper"):
            for folder, folders, files in os.walk(layer):
                folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
                found = (Path(folder, name) for name in files if not name.startswith("."))
                yield from (str(path.relative_to(layer)) for path in found if path.is_file())

    def remove(self) -> None:
        """Close and delete all."""
        for descriptor in self.fifos or ():
            os.close(descriptor)
        self.progress.close()
        delete(self.out)


def _as_utf8(path: str | Path) -> str:
    """As enclose.py reads it, whatever the locale of this process is."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def probe_environment(out: Path, *, marker: str) -> dict[str, str]:
    """What lets every Python that the command starts find the plan in `out`; all else is the user's."""
    path = os.environ.get("PYTHONPATH")
    return {
        "HOTLAP_PLAN": str(out / "plan.json"),
        "HOTLAP_PARENT": str(os.getpid()),
        "HOTLAP_RUN": marker,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(_SITE), path))),
    }
