"""Where studies are kept: `.hotlap/<script>-<time>/study.json` in the folder that hotlap was started in.

For a folder that cannot be written, or should not be, HOTLAP_STUDIES names another: each working folder has one in it.
"""

import fcntl
import hashlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import IO

import hotlap
from hotlap.errors import RecordError, UserError
from hotlap.record import State, Status, Study, load, save

_FOLDER = ".hotlap"
_FILE = "study.json"
_VARIABLE = "HOTLAP_STUDIES"

# In the folder of a study on a cluster.
_JOBS = "jobs"

# A study with its report takes some hundred kB; ten trials more than double it.
_NEEDED_BYTES = 2 << 20


class StudyFolder:
    """One study on disk; the folder is made when there is something to keep.

    Arguments:
        cwd: where hotlap was started.
    """

    def __init__(self, cwd: Path, title: str, created: datetime) -> None:
        name = _plain(title.removesuffix(".py")) or "training"
        self.cwd = cwd
        self._root = root(cwd)
        self.folder = self._root / f"{name}-{created.strftime('%Y%m%d-%H%M%S')}"
        self._lock: IO[str] | None = None
        self._begun = False

    def check(self) -> None:
        """Before anything runs: is there a place for what will come of it?

        Raises:
            UserError: there is none, and why.
        """
        folder = next(folder for folder in (self._root, *self._root.parents) if os.path.lexists(folder))
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_NEEDED_BYTES))
        except OSError as error:
            raise UserError(
                f"The study cannot be kept in {self._root}: {error.strerror}. Name another folder for studies in the "
                f"variable {_VARIABLE}."
            ) from None

    def save(self, study: Study) -> None:
        """Write the study; a reader never sees half of one.

        Raises:
            UserError: it cannot be written.
        """
        try:
            if not self.folder.is_dir() and self._root.parent == self.cwd:
                os.stat(self.cwd)  # a script that deletes the folder that it was started in does not get it back
            if not self._begun:
                self.folder, self._lock = self._new()
                self._begun = True
            self.folder.mkdir(parents=True, exist_ok=True)
            ignored = self._root / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n")
            save(study, self.folder / _FILE)
        except OSError as error:
            raise UserError(f"The study cannot be saved in {self.folder}: {error.strerror}.") from None

    def _new(self) -> tuple[Path, IO[str] | None]:
        """A folder that no other study has, with its lock; of this second there may be several."""
        for number in count(1):
            folder = self.folder if number == 1 else Path(f"{self.folder}-{number}")
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
                break
            # Jobs of this study begin before there is more of it.
            if [path.name for path in folder.iterdir()] == [_JOBS]:
                break
        return folder, _locked(folder)

    def close(self) -> None:
        """Nobody works on it any more. (The end of the process does the same.)"""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def resume(self, key: str) -> Study | None:
        """The newest unfinished study of that key which nobody works on; this folder is then its own."""
        for path, study in known(self.cwd):
            if study.key == key and study.state is not State.COMPLETE and _unchanged(study):
                lock = _locked(path.parent)
                if lock is not None:
                    self.folder, self._lock, self._begun = path.parent, lock, True
                    return study
        return None


def study_key(command: tuple[str, ...], cwd: Path, script: Path | None, settings: str) -> str:
    """Digest of what a study is of; equal keys can be resumed."""
    import importlib.metadata

    digest = hashlib.blake2b(digest_size=12)
    versions = [hotlap.__version__, importlib.metadata.version("torch"), sys.version]
    for part in (*command, "", str(cwd), settings, *versions):
        digest.update(os.fsencode(part) + b"\0")
    if script is not None:
        digest.update(script.read_bytes())
    return digest.hexdigest()


def root(cwd: Path) -> Path:
    """The folder of all studies that are made in `cwd`."""
    elsewhere = os.environ.get(_VARIABLE)
    if not elsewhere:
        return cwd / _FOLDER
    digest = hashlib.blake2b(os.fsencode(cwd.resolve()), digest_size=4).hexdigest()
    return Path(elsewhere).absolute() / f"{_plain(cwd.name)}-{digest}"


def shown(cwd: Path) -> str:
    """The same, as messages call it."""
    return f"in {root(cwd)}" if os.environ.get(_VARIABLE) else f"in {_FOLDER}/ here"


def studies(cwd: Path) -> list[Path]:
    """Files of the studies that were made in `cwd`, the newest first."""
    found = [path for path in root(cwd).glob(f"*/{_FILE}") if path.is_file()]
    return sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)


def known(cwd: Path) -> Iterator[tuple[Path, Study]]:
    """Those of them that can be read."""
    for path in studies(cwd):
        with suppress(RecordError):
            yield path, read(path)


def read(path: Path) -> Study:
    """The study in that file.

    Raises:
        RecordError: it cannot be read.
    """
    ours = path.name == _FILE
    return load(path, Study, remedy="Delete it and measure again." if ours else None)


def found(name: str | None, *, command: str = "measure") -> list[tuple[Path, Study]]:
    """The study of that name (as `hotlap list` has it), in that folder or JSON file, with its file; where the name is
    that of a script instead, all studies of it that were made here, and without a name all of these, the newest first.

    Arguments:
        command: which makes one, for the error.

    Raises:
        UserError: there is none. RecordError: it cannot be read.
    """
    here = Path.cwd()
    files = [] if name is None else [Path(name) / _FILE, Path(name), root(here) / name / _FILE]
    path = next((file for file in files if file.is_file() and file.suffix == ".json"), None)
    if path is not None:
        return [(path, read(path))]
    kept = [(path, study) for path, study in known(here) if name is None or _is_of(study, name)]
    if kept:
        return kept
    if name is None:
        for path in studies(here):
            read(path)  # which says what is wrong with it
        raise UserError(f"There is no study {shown(here)}. Run `hotlap {command} SCRIPT` first.")
    script = next((one for one in (name, f"{name}.py") if Path(one).is_file()), None)
    if script is not None:
        raise UserError(
            f"There is no study of {script} {shown(here)}. `hotlap list` lists those there are; "
            f"`hotlap {command} {shlex.quote(script)}` makes one."
        )
    raise UserError(f"There is no study at {name}. Name it as `hotlap list` does, or its JSON file, or its script.")


def _is_of(study: Study, name: str) -> bool:
    """`name` is the study's script, by its path from here or its stem, or its module."""
    first, *others = study.command or ("",)
    if first == "-m":
        return others[:1] == [name]
    if first == "--":
        scripts = [word for number, word in enumerate(others) if not number or word.endswith(".py")]
    else:
        scripts = [first]
    path = Path(name).resolve()
    return any(name == Path(script).stem or Path(script).resolve() == path for script in scripts)


def is_at_work(folder: Path) -> bool:
    """Another hotlap makes the study in `folder`."""
    lock = _locked(folder)
    if lock is not None:
        lock.close()
    return lock is None


def length(cwd: Path, command: tuple[str, ...]) -> int | None:
    """Steps of a training that a study in `cwd` followed to its end; None where there is none of these words."""
    for _, study in known(cwd):
        run = study.baseline[0] if study.command == command and study.baseline else None
        if run is not None and run.long is not None and run.status is Status.COMPLETE:
            return run.long.num_steps
    return None


def now() -> datetime:
    """UTC."""
    return datetime.now(UTC)


def _plain(name: str) -> str:
    """As part of a folder's name on any system."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _unchanged(study: Study) -> bool:
    """The source files that the baseline loaded are as they were."""
    sources = ((Path(name), sha256) for run in study.baseline for name, sha256 in run.sources.items())
    return all(path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256 for path, sha256 in sources)


def _locked(folder: Path) -> IO[str] | None:
    """An open file that nobody else holds; None if somebody does. Freed by the system however we end."""
    with ExitStack() as stack, suppress(OSError):  # it is held, or belongs to somebody else
        file = stack.enter_context((folder / "lock").open("w"))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(str(os.getpid()))
        file.flush()
        stack.pop_all()
        return file
    return None
