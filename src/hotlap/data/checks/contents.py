"""Whether what items are made from is what it was, in all its depth: asked once an epoch.

The data set is pickled into a digest, and so are the code, globals, closures and classes that pickle would only name:
pickle comes to everything that an object consists of, or says that it cannot.
"""

import functools
import hashlib
import io
import mmap
import os
import pickle
import platform
import stat
import sys
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, NamedTuple, final

import numpy as np
import torch

from hotlap.data.checks.checksums import Unseen, of_array, of_bytes, of_tensor
from hotlap.data.checks.code_names import attribute_names, cell_contents, global_names, is_library, text_of
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.random_state import GENERATORS
from hotlap.data.checks.watch import Watch, slot_values
from hotlap.data.wrapper import DatasetWrapper

# What looking into a data set may take, as a part of the time that its items would take, and in any case. An epoch
# over kept items takes a tenth of that time, so that some gain is left; whether it is enough, a trial shows.
SHARE = 0.5
LEAST_S = 0.25
# The first look is paid once, as filling is, and takes some times as long: it is paid back within the second epoch.
FIRST_SHARE = 1.0

# What it takes is counted, not timed: beside other programs processor time is longer too, and a cache that pays was
# refused for 0.97 s. Seconds of processor time (two cores, Python 3.11): of an array 0.42 s a GB, if it is not
# contiguous 2.1 s; of a list of 1,000,000 numbers 0.15 s, which are 5 MB pickled; of 1,000,000 texts 0.5 s (17 MB), and
# 1.8 s more to ask whether there are files of these names; of 20,000 dicts that hold an array and a number 0.18 s.
_BYTE_S, _SCATTERED_BYTE_S, _PICKLED_BYTE_S, _HASHED_BYTE_S = 0.42e-9, 2.1e-9, 30e-9, 1e-9
_OBJECT_S = 5e-6
_NAME_S = 1.8e-6

# What is longer than this, pickle hands on as it is.
_FRAME_BYTES = 1 << 17

# Beyond this a run would wait longer for the key than it is worth.
_MOST_FILES = 200_000

# Objects of these are never what an item is made from, and cannot be pickled.
_NOTHING = frozenset({"_thread", "threading", "_abc", "weakref"})

# What classes written in C consist of.
_OF_C = (
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip

# Entries of a class that are none of the script's.
_OF_EACH_CLASS = frozenset({"__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__slots__"})


class _Held(NamedTuple):
    """What a `Watch` compares: as it was when the data set was looked into first."""

    names: str
    values: list[Any]


Held = dict[tuple[str, int], _Held]
"""By the kind of place, and the id of what it belongs to."""


class _Look(pickle.Pickler):
    """One look at all that can be reached from an object."""

    def __init__(self, root: Any, held: Held, spend: Callable[[float], None]) -> None:
        """`spend` is told what it takes.

        Raises:
            Unseen: it holds what cannot be compared.
        """
        super().__init__(self, protocol=5)
        self._held = held
        self._spend = spend
        self._hash = hashlib.blake2b(digest_size=20)
        self._waiting = deque(_as_held([root], held))
        self.shared: list[tuple[Any, object]] = []
        """Tensors and arrays that copies of this process have as well, and their numbers."""
        self.libraries: dict[str, None] = {}
        self.names_file: str | None = None
        """An open file, which another run cannot be told to have as well."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about what later versions will not pickle any more
                while self._waiting:  # one after the other: code leads to code, deeper than pickle can go
                    self.dump(self._waiting.popleft())
        except Unseen:
            raise
        except Exception as error:  # each class has its own way to say that it cannot
            raise Unseen(f"changes inside of it cannot be seen ({error})") from None
        self.digest = self._hash.hexdigest()
        self.clear_memo()

    def write(self, data: Any) -> None:
        """As a file that pickle writes to."""
        self._spend(len(data) * (_PICKLED_BYTE_S if len(data) < _FRAME_BYTES else _HASHED_BYTE_S))
        self._hash.update(data)

    def reducer_override(self, value: Any) -> Any:
        """What is pickled in the place of an object."""
        self._spend(_OBJECT_S)
        kind: Any = type(value)
        return _way(kind)(self, value)

    def _named(self, value: Any) -> Any:
        return self._by_name(value.__name__, "")

    def _of_c(self, value: Any) -> Any:
        """A function or method of C."""
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType | type):
            return self._by_name(value.__module__, value.__qualname__)
        return _told, (owner, value.__name__)

    def _part_of_class(self, value: Any) -> Any:
        return _told, (type(value), value.fget if isinstance(value, property) else value.__func__)

    def _path(self, value: PurePath) -> Any:
        return _told, (type(value), str(value))

    def _kind_alone(self, value: Any) -> Any:
        return _told, (type(value),)

    def _wrapped(self, value: Any) -> Any:
        """Another of ours, whose own state is none of the items'; or what remembers what the script is handed too."""
        return _told, (value._hotlap_dataset if isinstance(value, DatasetWrapper) else value.__wrapped__,)

    def _by_pickle(self, value: Any) -> Any:
        return NotImplemented

    def _object(self, value: Any) -> Any:
        """All of its attributes, whatever a method of its own would tell of them."""
        own = getattr(value, "__dict__", {})
        names, values = self._held.get(("attributes", id(value))) or (",".join(map(str, own)), [*own.values()])
        slots = [*slot_values(value).values()]
        return _told, (type(value), names.encode()), (_as_held(values, self._held), _as_held(slots, self._held))

    def _class(self, value: Any) -> Any:
        if is_library(value.__module__):
            return self._by_name(value.__module__, value.__qualname__)
        parts = {key: part for key, part in vars(value).items() if key not in _OF_EACH_CLASS}
        for key in [key for key, part in parts.items() if key.startswith("__") and not callable(part)]:
            del parts[key]
        self._waiting.append((value.__bases__, ",".join(parts).encode(), [*parts.values()]))
        return _told, (value.__module__, value.__qualname__)

    def _function(self, value: types.FunctionType) -> Any:
        if value is _told:
            return NotImplemented
        if is_library(value.__module__):
            return self._by_name(value.__module__, value.__qualname__)
        code, known = value.__code__, value.__globals__
        names = [name for name in global_names(code) if name in known]
        values = [known[name] for name in names]
        modules = [each for each in values if isinstance(each, types.ModuleType) and not is_library(each.__name__)]
        self._waiting.append((
            (value.__defaults__, value.__kwdefaults__, vars(value)),
            self._held_or("closure", value, lambda: cell_contents(value.__closure__ or ())),
            ",".join(names).encode(),
            self._held_or("globals", value, lambda: values),
            [self._of_module(each, code) for each in modules],
        ))  # fmt: skip
        return _told, (value.__module__, value.__qualname__, text_of(code).encode())

    def _of_module(self, module: types.ModuleType, code: types.CodeType) -> list[Any]:
        """What the code may take from a module of the script's own (`config.SIZE`)."""
        names = [name for name in attribute_names(code) if name in vars(module)]
        return self._held_or(f"module {module.__name__}", code, lambda: [vars(module)[name] for name in names])

    def _held_or(self, kind: str, owner: Any, now: Callable[[], list[Any]]) -> list[Any]:
        held = self._held.get((kind, id(owner)))
        return _as_held(now(), self._held) if held is None else held.values

    def _by_name(self, module: str | None, name: str) -> Any:
        self.libraries[(module or "").partition(".")[0]] = None
        return _told, (module, name)

    def _tensor(self, value: torch.Tensor) -> Any:
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized or value.is_nested:
            raise Unseen(f"changes to a tensor ({value.device}, {value.layout}) cannot be seen")
        self._spend(value.nbytes * (_BYTE_S if value.is_contiguous() else _SCATTERED_BYTE_S))
        number = of_tensor(value)
        if value.is_shared():  # type: ignore[no-untyped-call]
            self.shared.append((value, number))
        return _told, (type(value), number), vars(value) or None

    def _array(self, value: Any) -> Any:
        if isinstance(value, np.memmap) and value.mode == "r" and value.filename is not None:
            # nobody writes through it, and who writes to the file changes its time
            return _told, (os.fspath(value.filename), value.dtype.str, value.shape, value.strides, value.offset)
        if value.dtype.hasobject:
            return _told, (value.dtype.str, value.shape, value.ravel().tolist())
        self._spend(value.nbytes * (_BYTE_S if value.flags.c_contiguous else _SCATTERED_BYTE_S))
        number = of_array(value)
        if isinstance(value, np.memmap):
            self.shared.append((value, number))
        return _told, (type(value), number)

    def _file(self, value: Any) -> Any:
        if isinstance(value, io.BytesIO | io.StringIO):
            return _told, (type(value), value.getvalue())
        if isinstance(value, io.IOBase):
            self.names_file = f"it holds an open file, a {type(value).__qualname__}"
            return _told, (type(value), getattr(value, "name", None))
        self._spend(_BYTE_S * len(value))
        return _told, (type(value), of_bytes(value))


def _told(*facts: object) -> None:
    """Stands in a pickle for what nobody will ever unpickle."""


@final
class _FirstLook(_Look):
    """One that comes to each text as well, which takes some times as long."""

    def __init__(self, root: Any, held: Held, spend: Callable[[float], None], note: Callable[[str], None]) -> None:
        """`note` is told each text."""
        self._note = note
        self.sorts = False
        """It holds a set, whose order is chance, and another one in the next run."""
        super().__init__(root, held, spend)

    def persistent_id(self, value: Any) -> Any:
        """What stands for a value; None: itself."""
        kind = type(value)
        if kind is str:
            self._note(value)
        elif kind is set or kind is frozenset:
            self.sorts = True
            return kind.__name__, sorted(value, key=repr)
        return None


def _as_held(values: list[Any], held: Held) -> list[Any]:
    """With what was in a container in the place of one that a `Watch` compares."""
    return [held[place].values if (place := ("container", id(value))) in held else value for value in values]


_WAYS: dict[Any, Callable[[_Look, Any], Any]] = {
    type: _Look._class,
    types.FunctionType: _Look._function,
    (*GENERATORS, *_OF_C): _Look._kind_alone,
    torch.Tensor: _Look._tensor,
    np.ndarray: _Look._array,
    (DatasetWrapper, functools._lru_cache_wrapper): _Look._wrapped,
    types.ModuleType: _Look._named,
    PurePath: _Look._path,
    (io.IOBase, mmap.mmap, memoryview): _Look._file,
    (types.BuiltinMethodType, types.MethodWrapperType): _Look._of_c,
    (property, staticmethod, classmethod): _Look._part_of_class,
}

# Bit of `type.__flags__` that classes of some C modules lack (Py_TPFLAGS_HEAPTYPE in CPython's object.h).
_HEAP_TYPE = 1 << 9


@functools.cache
def _way(kind: Any) -> Callable[[_Look, Any], Any]:
    """How objects of this class are compared."""
    if kind.__module__ in _NOTHING:
        return _Look._kind_alone
    known = next((way for kinds, way in _WAYS.items() if issubclass(kind, kinds)), None)
    return known or (_Look._by_pickle if _pickles_itself(kind) else _Look._object)


def _pickles_itself(kind: Any) -> bool:
    """True if attributes are not all that its objects consist of, or an installed library says what they consist of."""
    has_attributes = kind.__dictoffset__ != 0 or any("__slots__" in vars(base) for base in kind.__mro__)
    if not has_attributes or any(base is not object and not base.__flags__ & _HEAP_TYPE for base in kind.__mro__):
        return True
    ways = ("__reduce__", "__reduce_ex__", "__getstate__")
    return is_library(kind.__module__) and any(getattr(kind, way) is not getattr(object, way) for way in ways)


@final
class Contents:
    """All that a data set consists of, and whether that has changed: asked when an epoch begins.

    What `beside` compares, which is asked more often and knows what items themselves change, is taken as it was.
    """

    def __init__(
        self,
        root: Any,
        *,
        beside: Watch | None = None,
        files: OpenedFiles | None = None,
        item_s: float = 0.0,
        num_items: int | None = None,
    ) -> None:
        """Looks into everything at once.

        Arguments:
            beside: a `Watch` over the same root, made before; None: nothing is left to one.
            files: those that items are read from.
            item_s: seconds that an item takes, of `num_items` in all; None: looking may take as long as it takes.

        Raises:
            Unseen: it holds what cannot be compared, or so much that it takes too long.
        """
        self._root, self._files, self._named = root, files, OpenedFiles()
        self._held: Held = {}
        for place, one in ({} if beside is None else beside.places).items():
            names = () if one.keys is None else one.keys()
            self._held[place] = _Held(",".join(map(str, names)), [*one.values])
        for each in self._held.values():
            each.values[:] = _as_held(each.values, self._held)
        self._texts: dict[str, None] = {}
        self._item_s = item_s if num_items is not None else None
        self._share, self._spent_s, self._saved_s = FIRST_SHARE, 0.0, item_s * (num_items or 0)
        self._first = _FirstLook(root, self._held, self._spend, self._note)
        self._share, self._spent_s, self._again_s = SHARE, 0.0, self._spent_s

    def changed(self, num_served: int = 0) -> str | None:
        """What is no longer as it was; None if nothing is. `num_served`: items that were not computed since last time.

        Raises:
            Unseen: looking takes too large a part of what is saved.
        """
        self._saved_s += (self._item_s or 0.0) * num_served
        self._spend(self._again_s)
        return self.differs()

    @property
    def has_files(self) -> bool:
        """True if the data set names files, or has them open."""
        return bool(self._named)

    def differs(self) -> str | None:
        """As `changed`, whatever it takes."""
        changed = self.changed_for_copies()
        if changed is not None:
            return changed
        try:
            now = self._look_again()
        except Unseen as reason:
            return f"the content ({reason})"
        return None if now.digest == self._first.digest else "the content"

    def changed_for_copies(self) -> str | None:
        """What copies of this process, made before, find changed as well: shared memory, a file; None if nothing is."""
        for value, number in self._first.shared:
            if number != (of_tensor(value) if isinstance(value, torch.Tensor) else of_array(value)):
                return "what is in shared memory"
        paths = (files.changed() for files in (self._named, self._files) if files is not None)
        return next((f"the file {path}" for path in paths if path is not None), None)

    def key(self) -> str:
        """Under which a later run finds the items computed before, where all that they are made from is the same:
        versions of libraries too, and size and time of every file and folder that a text names.

        Raises:
            Unseen: the content of the data set cannot be told.
        """
        if self._first.names_file is not None:
            raise Unseen(self._first.names_file)
        versions = [(name, str(getattr(sys.modules.get(name), "__version__", ""))) for name in self._first.libraries]
        about = platform.python_version(), torch.__version__, np.__version__, sys.byteorder, self._first.digest
        facts = repr((about, versions, _stamps(self._texts)))
        return hashlib.blake2b(facts.encode(), digest_size=20).hexdigest()

    def _look_again(self) -> _Look:
        if self._first.sorts:
            return _FirstLook(self._root, self._held, lambda _: None, lambda _: None)
        return _Look(self._root, self._held, lambda _: None)

    def _note(self, text: str) -> None:
        if 0 < len(text) < 1024 and "\n" not in text and "\0" not in text:
            self._texts[text] = None
            # It takes 1 us to ask for a file, and texts may be many.
            if "/" in text or "\\" in text or 0 < len(text) - text.rfind(".") <= 8:
                self._spend(_NAME_S)
                self._named.note(text, only_files=True)

    def _spend(self, cost_s: float) -> None:
        self._spent_s += cost_s
        if self._item_s is not None and self._spent_s > LEAST_S + self._share * self._saved_s:
            raise Unseen(
                f"it holds so much that looking for changes takes {self._spent_s:.2g} s, more than {self._share:.0%} "
                f"of the {self._saved_s:.2g} s that its items take"
            )


def _stamps(texts: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """Of each file that has one of these names, and of those below each folder: (name, time, bytes, number)."""
    found = dict[str, tuple[str, int, int, int]]()

    def is_folder(path: str) -> bool:
        try:
            one = os.stat(path)
        except (OSError, ValueError):
            return False
        if len(found) == _MOST_FILES:
            raise Unseen(f"it names more than {_MOST_FILES} files")
        found[path] = path, one.st_mtime_ns, one.st_size, one.st_ino
        return stat.S_ISDIR(one.st_mode)

    for text in texts:
        if text not in found and is_folder(text):
            for folder, folders, files in os.walk(text):
                folders.sort()
                for file in sorted(files):
                    is_folder(os.path.join(folder, file))
    return [*found.values()]
