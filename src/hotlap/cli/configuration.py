"""`[tool.hotlap]` of the nearest pyproject.toml -> defaults of the commands that run a training."""

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotlap.cli.words import commands
from hotlap.errors import UserError


def apply(parser: argparse.ArgumentParser, folder: Path) -> None:
    """Each key, an option without its dashes, is the default of that option in every such command that has it.

    Raises:
        UserError: the file is no TOML, no command has such an option, or the value cannot be one.
    """
    path, table = _table(folder)
    if not table:
        return
    trainings = [one for one in commands(parser).values() if one.get_default("trains")]
    options = [{action.dest: action for action in one._actions} for one in trainings]
    for one in trainings:
        one.set_defaults(configured=frozenset(key.replace("-", "_") for key in table))
    for key, value in table.items():
        name = key.replace("-", "_")
        found = [(one, known[name]) for one, known in zip(trainings, options, strict=True) if name in known]
        if not found:
            raise UserError(f"{path}: [tool.hotlap] has {key}, and no command has an option --{key}.")
        for one, action in found:
            one.set_defaults(**{name: _value(value, action, f"{path}: {key} = {value!r} in [tool.hotlap]")})


def _value(value: Any, action: argparse.Action, what: str) -> Any:
    """What the option would make of it on the line."""
    is_switch = action.nargs == 0
    if isinstance(value, bool) != is_switch:
        raise UserError(f"{what} should be {'true or false' if is_switch else 'a text or a number'}.")
    if is_switch:
        return value
    texts = value if isinstance(value, list) else [str(value)]
    if not isinstance(value, str | int | float | list) or not all(isinstance(one, str) for one in texts):
        raise UserError(f"{what} is neither a text, a number, a switch, nor a list of texts.")
    text = ",".join(texts)
    try:
        found = action.type(text) if callable(action.type) else text
    except UserError as error:
        raise UserError(f"{what} cannot be used: {error}") from None
    if action.choices is not None and found not in action.choices:
        raise UserError(f"{what} is none of {', '.join(action.choices)}.")
    return found


def _table(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """That of the nearest file which has one."""
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        try:
            found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read: {error}.") from None
        for name in ("tool", "hotlap"):
            if name not in found:
                break
            found = found[name]
            if not isinstance(found, dict):
                raise UserError(f"{path}: {name} is {found!r}, and not a table as in [tool.hotlap].")
        else:
            return path, found
    return folder, {}
