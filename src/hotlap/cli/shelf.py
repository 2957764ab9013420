"""Where studies are kept: `.hotlap/<script>-<time>/study.json` in the folder that hotlap was started in."""

import hashlib
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import hotlap
from hotlap.errors import RecordError, UserError
from hotlap.record import State, Status, Study, load, save

if sys.platform != "win32":
    import fcntl

_FOLDER = ".hotlap"


class Shelf:
    """One study on disk; the folder is made when there is something to keep."""

    def __init__(self, cwd: Path, title: str, created: datetime) -> None:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(title).stem) or "training"
        self._root = cwd / _FOLDER
        self.folder = self._root / f"{name}-{created.strftime('%Y%m%d-%H%M%S')}"
        self._lock: IO[str] | None = None

    @property
    def study_path(self) -> Path:
        """The study's own file."""
        return self.folder / "study.json"

    def save(self, study: Study) -> None:
        """Write the study; a reader never sees half of one."""
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(parents=True)
                (self._root / ".gitignore").write_text("*\n")
            if self._lock is None:
                self._lock = _locked(self.folder)
            save(study, self.study_path)
        except OSError as error:
            raise UserError(f"The study cannot be saved in {self.folder}: {error.strerror}.") from None

    def write(self, name: str, text: str) -> Path:
        """A file beside the study."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def close(self) -> None:
        """Nobody works on it any more. (The end of the process does the same.)"""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def resume(self, key: str) -> Study | None:
        """The newest unfinished study of that key which nobody works on; this shelf then stands for it."""
        for path in studies(self._root.parent):
            with suppress(RecordError):
                study = load(path, Study)
                if study.key == key and study.state is not State.COMPLETE and _unchanged(study):
                    lock = _locked(path.parent)
                    if lock is not None:
                        self.folder, self._lock = path.parent, lock
                        return study
        return None


def study_key(command: tuple[str, ...], cwd: Path, script: Path | None, settings: str) -> str:
    """Digest of what a study is of; equal keys can be resumed."""
    import importlib.metadata

    digest = hashlib.blake2b(digest_size=12)
    versions = [hotlap.__version__, importlib.metadata.version("torch"), sys.version]
    for part in (*command, "", str(cwd), settings, *versions):
        digest.update(part.encode() + b"\0")
    if script is not None:
        digest.update(script.read_bytes())
    return digest.hexdigest()


def studies(folder: Path) -> list[Path]:
    """Files of the studies that were made in `folder`, the newest first."""
    found = [path for path in folder.glob(f"{_FOLDER}/*/study.json") if path.is_file()]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def length(folder: Path, command: tuple[str, ...]) -> int | None:
    """Steps of a training that a study in `folder` followed to its end; None where there is none of these words."""
    for path in studies(folder):
        with suppress(RecordError):
            study = load(path, Study)
            run = study.baseline[0] if study.command == command and study.baseline else None
            if run is not None and run.long is not None and run.status is Status.COMPLETE:
                return run.long.num_steps
    return None


def now() -> datetime:
    """UTC."""
    return datetime.now(UTC)


def _unchanged(study: Study) -> bool:
    """The source files that the baseline loaded are as they were."""
    for run in study.baseline:
        for name, sha256 in run.sources.items():
            path = Path(name)
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                return False
    return True


def _locked(folder: Path) -> IO[str] | None:
    """An open file that nobody else holds; None if somebody does. Freed by the system however we end."""
    file = (folder / "lock").open("w")
    if sys.platform == "win32":
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    file.write(str(os.getpid()))
    file.flush()
    return file
