"""The words behind the options -> the command that is started, checked before anything runs."""

import ast
import os
import shutil
import stat
import sys
import tokenize
from collections.abc import Sequence
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
        """The user's, which no run may change: where the command is started, and those of its scripts."""
        named = [self.cwd / word for word in self.command[1:] if word.endswith(".py")]
        scripts = [self.script] if self.script else [path for path in named if path.is_file()]
        return [self.cwd, *dict.fromkeys(path.resolve().parent for path in scripts)]


def parse(words: Sequence[str], *, cwd: Path | None = None, command: str = "tune") -> Target:
    """`SCRIPT ARGS...`, `-m MODULE ARGS...` or `-- COMMAND...` -> what is started.

    `cwd`: None is where the user is, by the name that the shell gives it: a script may print it.

    Raises:
        UserError: nothing is named, or the script is missing or not Python.
    """
    cwd = cwd or Path(os.getcwd())
    if not words:
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
        _check_program(words[1])
        return Target(cwd=cwd, command=tuple(words[1:]), title=Path(words[1]).name, script=None)
    script = cwd / words[0]
    check_script(script, words[0], command=command)
    return Target(cwd=cwd, command=(sys.executable, *words), title=Path(words[0]).name, script=script)


def source(script: Path) -> str:
    """Its text, read as Python reads it."""
    with tokenize.open(script) as file:
        return file.read()


def _check_program(name: str) -> None:
    if shutil.which(name) is None:
        raise UserError(f"There is no program {name} here that can be started. Is it on PATH, and executable?")


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
        raise UserError(f"{name} is not a script for {version}: line {error.lineno}: {error.msg}.{hint}") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise UserError(
            f"{name} is not a script for Python: {error}. For another program use `hotlap {command} -- COMMAND ...`."
        ) from None
