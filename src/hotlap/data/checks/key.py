"""A key of what a data set consists of, its code included, under which a later run finds the items computed before.

Told by `Contents` while it looks into everything; into the key go beside it the bytecode of functions, versions of
libraries, and size and time of every file and folder that a string names.
"""

import hashlib
import os
import pickle
import platform
import stat
import sys
import types
from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import Any, final

import numpy as np
import torch

from hotlap.data.checks.checksums import ATOMS, Unseen, entries_of
from hotlap.data.checks.walk import FUNCTIONS, is_library

# Beyond this a run would wait longer for the key than it is worth.
_MOST_FILES = 200_000


@final
class Key:
    """A digest of all that it is told, in its order."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=20)
        self._numbers_of: dict[int, int] = {}
        self._kinds: dict[type, int] = {}
        self._named_files: set[str] = set()
        self._refusal: str | None = None
        self.note(platform.python_version(), torch.__version__, np.__version__, sys.byteorder)

    def hexdigest(self) -> str:
        """Hexadecimal digits.

        Raises:
            Unseen: the content of the data set cannot be told.
        """
        if self._refusal is not None:
            raise Unseen(self._refusal)
        return self._hash.hexdigest()

    def refuse(self, reason: str) -> None:
        """There is something that another run cannot be told to have as well."""
        self._refusal = self._refusal or reason

    def note(self, *facts: object) -> None:
        """Values whose `repr` tells them apart."""
        self._hash.update(repr(facts).encode())

    def meet(self, name: str, value: Any) -> None:
        """Where it is, of what kind, and whether it is one that was met before."""
        kind = type(value)
        if kind in ATOMS:
            self.note(name, value)
            return
        number = self._kinds.get(kind)
        if number is None:
            number = self._kinds[kind] = len(self._kinds)
            self.note(kind.__module__, kind.__qualname__, _version(kind.__module__))
        self.note(name, number, self._number_of(value))
        if isinstance(value, (type, *FUNCTIONS)):
            self.note(getattr(value, "__module__", ""), getattr(value, "__qualname__", ""))

    def note_entries(self, name: str, container: Collection[Any]) -> None:
        """What is where in it: plain values, and which of the objects."""
        entries = entries_of(container)
        if isinstance(container, set | frozenset):
            if not ATOMS.issuperset(map(type, entries)):
                self.refuse(f"{name} is a set of objects, whose order is left to chance")
            entries = sorted(entries, key=repr)
        self.note([entry if type(entry) in ATOMS else (self._number_of(entry),) for entry in entries])

    def note_constant(self, name: str, value: Any) -> None:
        """An object of C that does not change."""
        try:
            self._hash.update(pickle.dumps(value, 4))
        except Exception:  # each class has its own way to say that it cannot
            self.refuse(f"{name} is a {type(value).__module__}.{type(value).__qualname__}")

    def note_module(self, module: types.ModuleType) -> None:
        """A module whose names are used."""
        self.note(module.__name__, _version(module.__name__))

    def note_code(self, code: types.CodeType) -> None:
        """What a function does."""
        self.note(_text_of(code))

    def note_files(self, values: Iterable[Any]) -> None:
        """Size and time of each file that has this name, and of those below each folder."""
        for value in sorted(values, key=str) if isinstance(values, set | frozenset) else values:
            if not isinstance(value, str | PurePath) or str(value) in self._named_files:
                continue
            text = str(value)
            if 0 < len(text) <= 4096 and "\0" not in text and "\n" not in text and self._note_file(text):
                for folder, folders, files in os.walk(text):
                    folders.sort()
                    for file in sorted(files):
                        self._note_file(os.path.join(folder, file))

    def _note_file(self, path: str) -> bool:
        """True for a folder."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return False
        self._named_files.add(path)
        if len(self._named_files) > _MOST_FILES:
            self.refuse(f"it names more than {_MOST_FILES} files")
            return False
        self.note(path, found.st_mtime_ns, found.st_size, found.st_ino)
        return stat.S_ISDIR(found.st_mode)

    def _number_of(self, value: Any) -> int:
        return self._numbers_of.setdefault(id(value), len(self._numbers_of))


def _version(module: str) -> str:
    """Of an installed library, whose code changes with it only."""
    top = sys.modules.get(module.partition(".")[0])
    return str(getattr(top, "__version__", "")) if is_library(module) else ""


def _text_of(code: types.CodeType) -> str:
    """What the code does: without the lines where it stands."""
    constants = [
        _text_of(each) if isinstance(each, types.CodeType) else sorted(map(repr, each))
        if isinstance(each, frozenset) else each
        for each in code.co_consts
    ]  # fmt: skip
    return repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants))
