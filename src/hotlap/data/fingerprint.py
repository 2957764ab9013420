"""A data set -> a key of its content and its code, under which items that were computed once can be found again.

Into the key goes all that can be reached from the data set: attributes, tensors, transforms, the bytecode of its
methods and of the functions they call, global names, versions of libraries, and size and time of every file and folder
that a string names. What cannot be told (a connection, an object of a C library) means that there is no key.
"""

import hashlib
import logging
import marshal
import os
import platform
import stat
import sys
import types
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path, PurePath
from typing import Any, cast, final

import numpy as np
import torch

from hotlap.data.determinism import cell_contents, global_names
from hotlap.data.items import is_picture

# Objects and files looked at; beyond this a run would wait longer for the key than it is worth.
_MOST_OBJECTS = 200_000
_MOST_FILES = 200_000

# Their code changes with their version only.
_LIBRARIES = frozenset({"torch", "torchvision", "torchaudio", "numpy", "PIL", "pandas", "scipy", "sklearn", "cv2"})

_ATOMS = frozenset({int, float, bool, complex, str, bytes, type(None), type(...)})
# Bit of `type.__flags__` that classes written in Python have (Py_TPFLAGS_HEAPTYPE in CPython's object.h).
_HEAP_TYPE = 1 << 9
_CONTAINERS = (list, tuple, dict, set, frozenset)


class NoKey(Exception):  # noqa: N818 - reads as the sentence "no key"
    """The data set holds something whose content cannot be told; the message says what."""


def key_of(dataset: Any) -> str:
    """Hexadecimal digits.

    Raises:
        NoKey: its content cannot be told.
    """
    digest = _Digest()
    digest.add_text(platform.python_version(), torch.__version__, np.__version__, sys.byteorder)
    digest.add(dataset)
    return digest.hexdigest()


@final
class _Digest:
    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=20)
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._files: set[str] = set()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()

    def add_text(self, *texts: str) -> None:
        for text in texts:
            data = text.encode(errors="surrogatepass")
            self._hash.update(len(data).to_bytes(8, "little") + data)

    def add(self, root: Any) -> None:
        """Everything below `root`, each object once, without recursion."""
        waiting = [root]
        while waiting:
            value = waiting.pop()
            if type(value) in _ATOMS:
                self._add_atom(value)
                continue
            number = self._numbers.get(id(value))
            if number is not None:
                self.add_text(f"again {number}")
                continue
            if len(self._numbers) >= _MOST_OBJECTS:
                raise NoKey(f"it consists of more than {_MOST_OBJECTS} objects")
            self._numbers[id(value)] = len(self._numbers)
            self._alive.append(value)  # so that its id stays its own
            self.add_text(f"{type(value).__module__}.{type(value).__qualname__}")
            waiting.extend(self._open(value))

    def _open(self, value: Any) -> Iterable[Any]:
        """Add what the value itself is; give what it consists of."""
        if type(value) in _CONTAINERS:
            return self._add_container(value)
        if is_picture(value):
            return self._add_picture(value)
        for kinds, look in _LOOKS:
            if isinstance(value, kinds):
                return look(self, value)
        return self._add_object(value)

    def _add_atom(self, value: Any) -> None:
        # Version 0 of the format knows no references, so that equal values give equal bytes.
        self._hash.update(marshal.dumps(value, 0))
        if isinstance(value, str):
            self._add_file(value)

    def _add_path(self, value: Any) -> Iterable[Any]:
        return (str(value),)

    def _add_tensor(self, value: Any) -> Iterable[Any]:
        if value.layout is not torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise NoKey(f"it holds a tensor on {value.device}, layout {value.layout}")
        self.add_text(str(value.dtype), str(tuple(value.shape)), str(value.requires_grad))
        flat = value.detach().resolve_conj().resolve_neg().contiguous().flatten()
        self._hash.update(memoryview(flat.view(torch.uint8).numpy()))
        return (value.__dict__,) if value.__dict__ else ()

    def _add_array(self, value: Any) -> Iterable[Any]:
        self.add_text(str(value.dtype), str(value.shape), str(value.strides))
        if value.dtype.hasobject:
            return (value.tolist(),)
        self._hash.update(cast(Any, np.ascontiguousarray(value).reshape(-1).view(np.uint8)))
        return ()

    def _add_scalar(self, value: Any) -> Iterable[Any]:
        self._hash.update(value.tobytes())
        return ()

    def _add_container(self, value: Any) -> Iterable[Any]:
        try:
            self._hash.update(marshal.dumps(_ordered(value), 0))
        except ValueError:  # not only plain values inside
            self.add_text(str(len(value)))
            if isinstance(value, set | frozenset):
                raise NoKey("it holds a set of objects, whose order is left to chance") from None
            return [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
        for text in _strings(value):
            self._add_file(text)
        return ()

    def _add_function(self, value: Any) -> Iterable[Any]:
        self.add_text(value.__module__ or "", value.__qualname__)
        if _library(value.__module__):
            return self._add_version(value.__module__)
        names = [name for name in global_names(value.__code__) if name in value.__globals__]
        return [
            value.__code__,
            value.__defaults__,
            value.__kwdefaults__,
            names,
            *cell_contents(value.__closure__ or ()),
            *(value.__globals__[name] for name in names),
        ]

    def _add_code(self, value: Any) -> Iterable[Any]:
        self._hash.update(value.co_code)
        self.add_text(str(value.co_names), str(value.co_varnames), str(value.co_freevars))
        return list(value.co_consts)

    def _add_method(self, value: Any) -> Iterable[Any]:
        return (value.__func__, value.__self__)

    def _add_partial(self, value: Any) -> Iterable[Any]:
        return (value.func, value.args, value.keywords)

    def _add_builtin(self, value: Any) -> Iterable[Any]:
        self.add_text(str(value.__module__), value.__qualname__)
        owner = getattr(value, "__self__", None)
        return () if owner is None or isinstance(owner, types.ModuleType) else (owner,)

    def _add_picture(self, value: Any) -> Iterable[Any]:
        self.add_text(value.mode, str(value.size))
        self._hash.update(value.tobytes())
        return ()

    def _add_type(self, value: type) -> Iterable[Any]:
        self.add_text(value.__module__, value.__qualname__)
        if _library(value.__module__) or value.__module__ == "builtins":
            return self._add_version(value.__module__)
        attributes = {
            name: part
            for name, part in vars(value).items()
            if isinstance(part, (types.FunctionType, property, staticmethod, classmethod, str, int, float, tuple, list))
            and name not in ("__module__", "__doc__", "__qualname__", "__firstlineno__", "__static_attributes__")
        }
        parts = [_behind(part) for part in attributes.values()]
        return [list(attributes), *parts, *(base for base in value.__bases__ if base is not object)]

    def _add_module(self, value: types.ModuleType) -> Iterable[Any]:
        self.add_text(value.__name__)
        source = getattr(value, "__file__", None)
        if not _library(value.__name__) and source:
            try:
                self._hash.update(Path(source).read_bytes())
            except OSError as error:
                raise NoKey(f"the source of {value.__name__} cannot be read") from error
        return self._add_version(value.__name__)

    def _add_logger(self, value: Any) -> Iterable[Any]:
        return (value.name,)

    def _add_version(self, module: str | None) -> Iterable[Any]:
        top = sys.modules.get((module or "").partition(".")[0])
        self.add_text(str(getattr(top, "__version__", "")))
        return ()

    def _add_object(self, value: Any) -> Iterable[Any]:
        if any(kind is not object and not kind.__flags__ & _HEAP_TYPE for kind in type(value).__mro__):
            return self._add_reduced(value)  # a class of C has state that its attributes do not show
        state = getattr(value, "__dict__", None)
        slots = {
            name: getattr(value, name)
            for kind in type(value).__mro__
            for name in _slots(kind)
            if hasattr(value, name) and name not in ("__dict__", "__weakref__")
        }
        if isinstance(state, dict) or slots:
            return [type(value), state, slots]
        return self._add_reduced(value)

    def _add_reduced(self, value: Any) -> Iterable[Any]:
        """An object of a C library, as it would be pickled."""
        try:
            reduced = value.__reduce_ex__(2)
        except Exception as error:
            raise NoKey(f"it holds a {type(value).__module__}.{type(value).__qualname__}") from error
        if isinstance(reduced, str):
            self.add_text(reduced)
            return (type(value),)
        # function, arguments, state, and iterators over what a list or dict holds
        return [list(part) if number >= 3 else part for number, part in enumerate(reduced[:5]) if part is not None]

    def _add_file(self, text: str) -> None:
        """If a string names a file or a folder: its size and time, and those of all below it."""
        if not text or len(text) > 4096 or "\0" in text or "\n" in text or text in self._files:
            return
        try:
            found = os.stat(text)
        except (OSError, ValueError):
            return
        self._note(text, found)
        if stat.S_ISDIR(found.st_mode):
            for folder, folders, files in os.walk(text):
                folders.sort()
                for name in sorted(files):
                    path = os.path.join(folder, name)
                    try:
                        self._note(path, os.stat(path))
                    except OSError:
                        self.add_text(path, "unreadable")

    def _note(self, path: str, found: os.stat_result) -> None:
        self._files.add(path)
        if len(self._files) > _MOST_FILES:
            raise NoKey(f"it names more than {_MOST_FILES} files")
        self.add_text(path, str(found.st_mtime_ns), str(found.st_size), str(found.st_ino))


def _ordered(value: Any) -> Any:
    """Plain containers, with sets in an order that does not depend on hashes."""
    if isinstance(value, set | frozenset):
        try:
            return sorted(value)
        except TypeError:
            raise ValueError("cannot be ordered") from None
    if type(value) not in (list, tuple, dict):
        raise ValueError("not a plain container")
    return value


def _strings(value: Any) -> Iterable[str]:
    """Texts in plain containers: those may be names of files."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, _CONTAINERS):
            waiting += part


def _behind(part: Any) -> Any:
    """The function of a property, class method or static method."""
    if isinstance(part, property):
        return part.fget
    return part.__func__ if isinstance(part, staticmethod | classmethod) else part


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _library(module: str | None) -> bool:
    top = (module or "").partition(".")[0]
    return top in _LIBRARIES or top in sys.stdlib_module_names


_Look = Callable[[_Digest, Any], Iterable[Any]]
_LOOKS = cast(
    "tuple[tuple[Any, _Look], ...]",
    (
        (type, _Digest._add_type),
        (types.ModuleType, _Digest._add_module),
        (logging.Logger, _Digest._add_logger),
        (torch.Tensor, _Digest._add_tensor),
        (np.ndarray, _Digest._add_array),
        (np.generic, _Digest._add_scalar),
        (types.FunctionType, _Digest._add_function),
        (types.MethodType, _Digest._add_method),
        ((types.BuiltinFunctionType, types.MethodWrapperType), _Digest._add_builtin),
        (types.CodeType, _Digest._add_code),
        (partial, _Digest._add_partial),
        (PurePath, _Digest._add_path),
    ),
)
