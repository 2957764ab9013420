"""The words behind the options -> the command that is started, checked before anything runs."""

import ast
import sys
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A training command."""

    command: tuple[str, ...]
    title: str
    """What messages call it."""
    script: Path | None
    """None for a module or a command."""


def parse(words: Sequence[str], *, cwd: Path) -> Target:
    """`SCRIPT ARGS...`, `-m MODULE ARGS...` or `-- COMMAND...` -> what is started.

    Raises:
        UserError: nothing is named, or the script is missing or not Python.
    """
    if not words:
        raise UserError(
            "Which training? Give a script: `hotlap tune train.py`, `-m package.train`, or `-- COMMAND ...`."
        )
    if words[0] == "-m":
        if len(words) < 2:
            raise UserError("-m needs the name of a module, as in `hotlap tune -m package.train`.")
        return Target(command=(sys.executable, *words), title=words[1], script=None)
    if words[0] == "--":
        if len(words) < 2:
            raise UserError("-- needs a command behind it, as in `hotlap tune -- bash train.sh`.")
        return Target(command=tuple(words[1:]), title=Path(words[1]).name, script=None)
    script = cwd / words[0]
    check_script(script, words[0])
    return Target(command=(sys.executable, *words), title=Path(words[0]).name, script=script)


def cut(words: Sequence[str], *, value_options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Command line -> (words for hotlap, words of the training): cut at the first word that is no option of ours.

    Arguments:
        words: the first is the command of hotlap's.
        value_options: options that take one value each.
    """
    index = 1
    while index < len(words):
        word = words[index]
        if word in ("-m", "--") or not word.startswith("-"):
            break
        index += 2 if word in value_options else 1
    return list(words[:index]), list(words[index:])


def check_script(script: Path, name: str) -> None:
    """Refuse what Python could not even begin.

    Raises:
        UserError: says what is wrong with the file, and what to do.
    """
    if script.is_dir():
        raise UserError(f"{name} is a folder. Give the script in it that trains.")
    if not script.exists():
        raise UserError(f"There is no file {name}. Give the script that you would run as `python {name}`.")
    try:
        with tokenize.open(script) as file:
            source = file.read()
        ast.parse(source, filename=name)
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}.") from None
    except SyntaxError as error:
        raise UserError(
            f"{name} is not a Python script that {sys.version_info.major}.{sys.version_info.minor} understands "
            f"(line {error.lineno}: {error.msg}). For another program use `hotlap tune -- COMMAND ...`."
        ) from None
    except (UnicodeDecodeError, ValueError) as error:
        raise UserError(
            f"{name} is not a Python script ({error}). For another program use `hotlap tune -- COMMAND ...`."
        ) from None
