"""A data set -> a key of its content and its code, under which items that were computed once can be found again.

Into the key goes all that `Contents` looks at, and beside it the bytecode of functions, versions of libraries, and size
and time of every file and folder that a string names.
"""

import hashlib
import io
import marshal
import os
import pickle
import platform
import stat
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Any, final

import numpy as np
import torch

from hotlap.data.checks.checksums import ATOMS, CONTAINERS, Unseen, entries_of, of_plain, plain_texts
from hotlap.data.checks.contents import Contents
from hotlap.data.checks.walk import FUNCTIONS, Place, is_library

# Objects and files looked at; beyond this a run would wait longer for the key than it is worth.
_MOST_OBJECTS = 200_000
_MOST_FILES = 200_000


def key_of(dataset: Any) -> str:
    """Hexadecimal digits.

    Raises:
        Unseen: its content cannot be told.
    """
    return _Key(dataset).hexdigest()


@final
class _Key(Contents):
    def __init__(self, root: Any) -> None:
        self._hash = hashlib.blake2b(digest_size=20)
        self._numbers_of: dict[int, int] = {}
        self._named_files: set[str] = set()
        self._text(platform.python_version(), torch.__version__, np.__version__, sys.byteorder)
        super().__init__(root)

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def _text(self, *texts: object) -> None:
        for text in texts:
            data = str(text).encode(errors="surrogatepass")
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def _meet(self, name: str, value: Any) -> None:
        """Where it is, of what kind, and whether it is one that was met before."""
        super()._meet(name, value)
        kind = type(value)
        self._text(name, kind.__module__, kind.__qualname__)
        if kind in ATOMS:
            self._hash.update(marshal.dumps(value, 2))
            return
        self._text(self._numbers_of.setdefault(id(value), len(self._numbers_of)), _version(kind.__module__))
        if isinstance(value, (type, *FUNCTIONS)):
            self._text(getattr(value, "__module__", ""), getattr(value, "__qualname__", ""))

    def _full(self) -> bool:
        if len(self._visited) > _MOST_OBJECTS:
            raise Unseen(f"it consists of more than {_MOST_OBJECTS} objects")
        return False

    def _add(self, name: str, number: Callable[[], object], cost_s: float) -> None:
        self._text(name, number())

    def _place(self, kind: str, owner: Any, place: Callable[[], Place]) -> None:
        """Nothing: all that a place holds is met."""

    def _numbers(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, np.memmap):
            self._text(value.dtype, value.shape, value.strides, value.offset)
            self._note_paths((value.filename,))
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:
            self._text(value.shape)
            yield f"an entry of {name}", value.tolist()
            return
        yield from super()._numbers(name, value)

    def _container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        plain = plain_texts(value) if type(value) in CONTAINERS else None
        unordered = isinstance(value, set | frozenset)
        if plain is not None:
            self._note_paths(plain[0])
            self._add(name, partial(of_plain, sorted(value, key=_in_order) if unordered else value), 0.0)
        elif unordered:
            raise Unseen(f"{name} is a set of objects, whose order is left to chance")
        else:
            self._text(len(value))
            yield from ((f"an entry of {name}", child) for child in entries_of(value))

    def _constant(self, name: str, value: Any) -> None:
        super()._constant(name, value)
        try:
            self._hash.update(pickle.dumps(value, 4))
        except Exception as error:  # each class has its own way to say that it cannot
            raise Unseen(f"{name} is a {type(value).__module__}.{type(value).__qualname__}") from error

    def _open_file(self, name: str, value: Any) -> None:
        if not isinstance(value, io.BytesIO | io.StringIO):
            raise Unseen(f"{name} is an open file, a {type(value).__qualname__}")
        super()._open_file(name, value)

    def _module(self, name: str, module: types.ModuleType, code: types.CodeType) -> Iterator[tuple[str, Any]]:
        self._text(module.__name__, _version(module.__name__))
        yield from super()._module(name, module, code)

    def _named(self, code: types.CodeType) -> None:
        super()._named(code)
        self._text(_text_of(code))

    def _note_paths(self, values: Iterable[Any]) -> None:
        """Size and time of each file that has this name, and of those below each folder."""
        for value in values:
            if not isinstance(value, str | PurePath) or str(value) in self._named_files:
                continue
            text = str(value)
            if 0 < len(text) <= 4096 and "\0" not in text and "\n" not in text and self._note(text):
                for folder, folders, files in os.walk(text):
                    folders.sort()
                    for file in sorted(files):
                        self._note(os.path.join(folder, file))

    def _note(self, path: str) -> bool:
        """True for a folder."""
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return False
        self._named_files.add(path)
        if len(self._named_files) > _MOST_FILES:
            raise Unseen(f"it names more than {_MOST_FILES} files")
        self._text(path, found.st_mtime_ns, found.st_size, found.st_ino)
        return stat.S_ISDIR(found.st_mode)


def _in_order(entry: Any) -> bytes:
    return marshal.dumps(entry, 2)


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
