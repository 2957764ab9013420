"""The words behind the options -> the command that is started, checked before anything runs."""

import ast
import os
import shutil
import stat
import sys
import sysconfig
import tokenize
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A training command."""

    cwd: Path
    """Where it is started."""
    command: tuple[str, ...]
    title: str
    """What messages call it."""
    script: Path | None
    """None for a module or a command."""

    def folders(self) -> list[Path]:
        """The user's, which no run may change: where the command is started, and those of its scripts, by the name that
        they are given and by that of the file that a link leads to."""
        scripts = [self.script] if self.script else list(_scripts(self.command, self.cwd))
        folders = (folder for path in scripts for folder in (path.parent.resolve(), path.resolve().parent))
        return list(dict.fromkeys((self.cwd, *folders)))


def _scripts(command: Sequence[str], cwd: Path) -> Iterator[Path]:
    """Files among the words that are programs in text, and modules; without what is installed."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib", "scripts")]
    installed += [Path(folder).resolve() for folder in os.get_exec_path()]
    for before, word in zip(("", *command), command, strict=False):
        found = _module(word, cwd) if before in ("-m", "--module") else cwd / word
        if found is None or not os.path.isfile(found) or any(map(found.resolve().is_relative_to, installed)):
            continue
        if found.suffix in (".py", ".sh") or _begins_as_script(found):
            yield found


def _begins_as_script(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(2) == b"#!"
    return False


def _module(name: str, cwd: Path) -> Path | None:
    """The file that `python -m` would run; nothing is imported, as a search by Python itself would do."""
    stems = (Path(place, *name.split(".")) for place in (str(cwd), *sys.path))
    files = (path for stem in stems for path in (Path(f"{stem}.py"), stem / "__main__.py"))
    return next((path for path in files if os.path.isfile(path)), None)


def parse(words: Sequence[str], *, cwd: Path | None = None, command: str = "tune") -> Target:
    """`SCRIPT ARGS...`, `-m MODULE ARGS...` or `-- COMMAND...` -> what is started.

    `cwd`: None is where the user is, by the name that the shell gives it: a script may print it.

    Raises:
        UserError: nothing is named, or the script is missing or not Python.
    """
    cwd = cwd or Path(os.getcwd())
    if not words or not words[0]:
        raise UserError(
            f"Which training? Give a script: `hotlap {command} train.py`, `-m package.train`, or `-- COMMAND ...`."
        )
    if words[0] == "-m":
        if len(words) < 2:
            raise UserError(f"-m needs the name of a module, as in `hotlap {command} -m package.train`.")
        return Target(cwd=cwd, command=(sys.executable, *words), title=words[1], script=None)
    if words[0] == "--":
        if len(words) < 2:
            raise UserError(f"-- needs a command behind it, as in `hotlap {command} -- bash train.sh`.")
        if shutil.which(words[1]) is None:
            raise UserError(f"There is no program {words[1]} here that can be started. Is it on PATH, and executable?")
        return Target(cwd=cwd, command=tuple(words[1:]), title=Path(words[1]).name, script=None)
    script = cwd / words[0]
    check_script(script, words[0], command=command)
    return Target(cwd=cwd, command=(sys.executable, *words), title=Path(words[0]).name, script=script)


def source(script: Path) -> str:
    """Its text, read as Python reads it."""
    with tokenize.open(script) as file:
        return file.read()


def check_script(script: Path, name: str, *, command: str = "tune") -> None:
    """Refuse what Python could not even begin.

    Raises:
        UserError: says what is wrong with the file, and what to do.
    """
    try:
        kind = script.stat().st_mode
        if stat.S_ISDIR(kind):
            raise UserError(f"{name} is a folder. Give the script in it that trains.")
        if not stat.S_ISREG(kind):
            raise UserError(f"{name} is no file that can be read again and again. Save the script under a name.")
        if script.suffix == ".ipynb":
            raise UserError(
                f"{name} is a notebook. Write its training into a script: `%%writefile train.py` as the first line of "
                f"a cell, or `jupyter nbconvert --to script {name}`."
            )
        ast.parse(source(script), filename=name)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"There is no file {name}. Give the script that you would run as `python {name}`.") from None
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        hint = "" if name.endswith(".py") else f" For another program use `hotlap {command} -- COMMAND ...`."
        where = f"line {error.lineno}: " if error.lineno else ""
        raise UserError(f"{name} is not a script for {version}: {where}{error.msg}.{hint}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise UserError(
            f"{name} is not a script for Python: {error}. For another program use `hotlap {command} -- COMMAND ...`."
        ) from None
