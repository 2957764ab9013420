"""`module:callable` or `file.py:callable` -> the data set that it gives."""

import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.errors import ScriptFailed, UserError


def dataset_of(name: str, arguments: Sequence[str]) -> Any:
    """The data set; `arguments` are `NAME=VALUE`, for the callable.

    Raises:
        UserError: there is no such thing.
        ScriptFailed: the module or the callable raised an error of its own.
    """
    given = dict(map(_argument, arguments))
    place, colon, attribute = name.rpartition(":")
    if not (colon and place and attribute):
        raise UserError(f"{name} does not name a data set. Give it as in data.py:train_set or package.data:train_set.")
    found: Any = _called(name, lambda: _module(place))
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UserError(f"{place} has no {attribute}. Name a function or class that gives the data set.")
        found = getattr(found, part)
    if callable(found) and (isinstance(found, type) or not hasattr(found, "__getitem__")):
        return _called(name, lambda: found(**given))
    if given:
        raise UserError(f"{name} is a data set already, so --arg {next(iter(given))}=... has nobody to go to.")
    return found


def _argument(text: str) -> tuple[str, Any]:
    """ "size=32" -> ("size", 32); "root=data" -> ("root", "data")."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UserError(f"--arg {text} is not NAME=VALUE. Give one as in --arg size=32.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def _module(place: str) -> ModuleType:
    """As `python -m` and `python FILE` would find it: from the folder one is in, or that of the file."""
    sys.argv[:] = [place]  # our words are none of its
    if not place.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
                raise UserError(f"There is no module {place} here. For a file, say {place}.py:...") from None
            raise
    path = Path(place).absolute()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UserError(f"There is no file {place}.")
    sys.path.insert(0, str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where its classes are looked up when they are sent to a worker
    spec.loader.exec_module(module)
    return module


def _called(name: str, function: Callable[[], Any]) -> Any:
    try:
        return function()
    except UserError:
        raise
    except Exception as error:
        said = "".join(traceback.format_exception(error))
        raise ScriptFailed(
            f"{name} gave no data set ({type(error).__name__}: {error}). Nothing was packed.", output=said
        ) from None
