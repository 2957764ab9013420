"""All that an object consists of -> a digest, and what looking at it takes.

It is pickled into the digest, and so are the code, globals, closures and classes that pickle would only name: pickle
comes to everything that an object consists of, or says that it cannot.
"""

import functools
import io
import mmap
import os
import pickle
import types
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, final

import numpy as np
import torch
import xxhash

from hotlap.data.checks.code_names import is_library, names_around, text_of
from hotlap.data.checks.random_state import GENERATORS
from hotlap.data.checks.watch import slot_values
from hotlap.data.item.codec import CannotKeep, as_array, is_kind_of_picture, pixels_of
from hotlap.data.wrapper import DatasetWrapper

# What it takes is counted, not timed: beside other programs processor time is longer too, and a cache that pays was
# refused for 0.97 s. Seconds of processor time (two cores, Python 3.11): of an array or of bytes 0.03 to 0.04 s a GB,
# and 0.4 s where it is not contiguous (0.06 and 0.7 here: other machines are slower); of a list of 1,000,000 numbers
# 0.15 s, which are 5 MB pickled; of 1,000,000 texts 0.5 s (17 MB), and 1.8 s more to ask whether there are files of
# these names; of 20,000 dicts that hold an array and a number 0.18 s; of 60,000 pairs of a picture of 28 x 28 bytes and
# a number 0.6 s.
_BYTE_S, _SCATTERED_BYTE_S, _PICKLED_BYTE_S = 0.06e-9, 0.7e-9, 30e-9
_OBJECT_S, _PICTURE_S = 5e-6, 6e-6
NAME_S = 1.8e-6

# Arrays that are not contiguous are copied so many bytes at a time.
_BYTES_AT_ONCE = 16 << 20

# What is longer than this, pickle hands on as it is.
_FRAME_BYTES = 1 << 17

# Objects of these are never what an item is made from, and cannot be pickled.
_NOTHING = frozenset({"_thread", "threading", "_abc", "weakref"})

# What classes written in C consist of.
_OF_C = (
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip

# Entries of a class that are none of the script's.
_OF_EACH_CLASS = frozenset({"__dict__", "__weakref__", "__module__", "__doc__", "__annotations__", "__slots__"})


Held = dict[tuple[str, int], list[Any]]
"""Kind of a place that a `Watch` compares, id of what it belongs to -> names (as bytes) and values there, as they were
when the data set was looked into first."""


def of_tensor(value: torch.Tensor) -> object:
    """Of all its elements, whoever wrote them: torch counts no changes through `.data` or a NumPy view."""
    plain = value.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg()
    return str(plain.dtype), of_array(as_array(plain))


def of_bytes(data: Any) -> int:
    """Of a long row of bytes."""
    return xxhash.xxh3_64_intdigest(data)


def of_array(value: Any) -> object:
    """Of all its elements. Not for arrays of objects."""
    about = (value.dtype.str, value.shape)
    if value.dtype.kind == "T":  # texts of any length, which lie elsewhere
        return about, value.ravel().tolist()
    array = np.asarray(value)
    once = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    if not once.size:
        return about
    if once.flags.c_contiguous or not once.ndim:
        return about, of_bytes(np.ascontiguousarray(once).reshape(-1).view(np.uint8))
    rows = max(1, _BYTES_AT_ONCE * len(once) // once.nbytes)
    number = xxhash.xxh3_64()
    for start in range(0, len(once), rows):
        part: Any = np.ascontiguousarray(once[start : start + rows]).reshape(-1).view(np.uint8)
        number.update(part)
    return about, number.intdigest()


class Look(pickle.Pickler):
    """One look at all that can be reached from an object."""

    def __init__(self, root: Any, held: Held, spend: Callable[[float], None]) -> None:
        """`spend` is told what it takes.

        Raises:
            CannotKeep: it holds what cannot be compared.
        """
        super().__init__(self, protocol=5)
        self._held = held
        self._spend = spend
        self._hash = xxhash.xxh3_128()
        self._waiting = deque(as_held([root], held))
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
        except CannotKeep:
            raise
        except Exception as error:  # each class has its own way to say that it cannot
            raise CannotKeep(f"changes inside of it cannot be seen ({error})") from None
        self.digest = self._hash.hexdigest()
        self.clear_memo()

    def write(self, data: Any) -> None:
        """As a file that pickle writes to, which hands on long buffers as they are."""
        data = memoryview(data)
        self._spend(data.nbytes * (_PICKLED_BYTE_S if data.nbytes < _FRAME_BYTES else _BYTE_S))
        self._hash.update(data)

    def reducer_override(self, value: Any) -> Any:
        """What is pickled in the place of an object."""
        self._spend(_OBJECT_S)
        kind: Any = type(value)
        return _way(kind)(self, value)

    def _of_c(self, value: Any) -> Any:
        """A function or method of C."""
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType | type):
            return self._by_name(value.__module__, value.__qualname__)
        return _told, (owner, value.__name__)

    def _object(self, value: Any) -> Any:
        """All of its attributes, whatever a method of its own would tell of them."""
        own = getattr(value, "__dict__", {})
        now = self._held.get(("attributes", id(value))) or with_names(own, own.values())
        slots = slot_values(value)
        return _told, (type(value),), (as_held(now, self._held), as_held(with_names(slots, slots.values()), self._held))

    def _class(self, value: Any) -> Any:
        if is_library(value.__module__):
            return self._by_name(value.__module__, value.__qualname__)
        own = {key: part for key, part in vars(value).items() if key not in _OF_EACH_CLASS}
        parts = {key: part for key, part in own.items() if callable(part) or not key.startswith("__")}
        self._waiting.append((value.__bases__, ",".join(parts).encode(), [*parts.values()]))
        return _told, (value.__module__, value.__qualname__)

    def _function(self, value: types.FunctionType) -> Any:
        if value is _told:
            return NotImplemented
        if is_library(value.__module__):
            return self._by_name(value.__module__, value.__qualname__)
        self._waiting.append((value.__defaults__, value.__kwdefaults__, vars(value)))
        for around in names_around(value):
            held = self._held.get((around.kind, id(around.owner)))
            self._waiting.append(held or as_held(with_names(around.names, around.values()), self._held))
        return _told, (value.__module__, value.__qualname__, text_of(value.__code__).encode())

    def _by_name(self, module: str | None, name: str) -> Any:
        self.libraries[(module or "").partition(".")[0]] = None
        return _told, (module, name)

    def _tensor(self, value: torch.Tensor) -> Any:
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized or value.is_nested:
            raise CannotKeep(f"changes to a tensor ({value.device}, {value.layout}) cannot be seen")
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

    def _picture(self, value: Any) -> Any:
        """A PIL image. To pickle its own state takes three times as long."""
        data = pixels_of(value)
        self._spend(_PICTURE_S + _BYTE_S * len(data))
        about = (value.getpalette(), value.info) if value.palette is not None or value.info else None
        return _told, (f"{value.mode} {value.size} {of_bytes(data)}".encode(), about)

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
class FirstLook(Look):
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


def with_names(names: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """As in `Held`."""
    return [",".join(map(str, names)).encode(), *values]


def as_held(values: list[Any], held: Held) -> list[Any]:
    """With what was in a container in the place of one that a `Watch` compares."""
    return [held[place] if (place := ("container", id(value))) in held else value for value in values]


Way = Callable[[Look, Any], Any]


def _kind_alone(look: Look, value: Any) -> Any:
    return _told, (type(value),)


_WAYS: dict[Any, Way] = {
    type: Look._class,
    types.FunctionType: Look._function,
    (*GENERATORS, *_OF_C): _kind_alone,
    torch.Tensor: Look._tensor,
    np.ndarray: Look._array,
    # Another of ours, whose own state is none of the items'; and what remembers what the script is handed too.
    DatasetWrapper: lambda _, value: (_told, (value._hotlap_dataset,)),
    functools._lru_cache_wrapper: lambda _, value: (_told, (value.__wrapped__,)),
    types.ModuleType: lambda look, value: look._by_name(value.__name__, ""),
    PurePath: lambda _, value: (_told, (type(value), str(value))),
    (io.IOBase, mmap.mmap, memoryview): Look._file,
    (types.BuiltinMethodType, types.MethodWrapperType): Look._of_c,
    property: lambda _, value: (_told, (type(value), value.fget)),
    (staticmethod, classmethod): lambda _, value: (_told, (type(value), value.__func__)),
}

# Bit of `type.__flags__` that classes of some C modules lack (Py_TPFLAGS_HEAPTYPE in CPython's object.h).
_HEAP_TYPE = 1 << 9


@functools.cache
def _way(kind: Any) -> Way:
    """How objects of this class are compared."""
    if kind.__module__ in _NOTHING:
        return _kind_alone
    if is_kind_of_picture(kind):
        return Look._picture
    known = next((way for kinds, way in _WAYS.items() if issubclass(kind, kinds)), None)
    return known or ((lambda *_: NotImplemented) if _pickles_itself(kind) else Look._object)


def _pickles_itself(kind: Any) -> bool:
    """True if attributes are not all that its objects consist of, or an installed library says what they consist of."""
    has_attributes = kind.__dictoffset__ != 0 or any("__slots__" in vars(base) for base in kind.__mro__)
    if not has_attributes or any(base is not object and not base.__flags__ & _HEAP_TYPE for base in kind.__mro__):
        return True
    ways = ("__reduce__", "__reduce_ex__", "__getstate__")
    return is_library(kind.__module__) and any(getattr(kind, way) is not getattr(object, way) for way in ways)
