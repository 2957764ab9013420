"""Whether what items are made from is what it was, in all its depth: asked once an epoch.

`Contents` stops at nothing, and reads every byte; where it cannot, or not in time, it says so.
"""

import gc
import io
import logging
import marshal
import math
import types
import weakref
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from hotlap.data.checks.checksums import (
    ATOMS,
    CONTAINERS,
    Unseen,
    entries_of,
    is_frame,
    of_array,
    of_frame,
    of_plain,
    of_tensor,
    plain_texts,
)
from hotlap.data.checks.code_names import attribute_names
from hotlap.data.checks.key import Key
from hotlap.data.checks.opened_files import OpenedFiles
from hotlap.data.checks.walk import Place, Walk, is_library, slot_values, slots_of
from hotlap.data.checks.watch import Watch
from hotlap.data.item.compare import is_picture

# What looking into a data set may take, as a part of the time that its items would take, and in any case. An epoch
# over kept items takes a tenth of that time, so that some gain is left; whether it is enough, a trial shows.
SHARE = 0.5
LEAST_S = 0.25
# The first look is paid once, as filling is, and takes some times as long: it is paid back within the second epoch.
FIRST_SHARE = 1.0

# What it takes is counted, not timed: beside other programs processor time is longer too, and a cache that pays was
# refused for 0.97 s. Seconds of processor time, the least of five looks (two cores, Python 3.11): of an array
# 0.42 s a GB, if it is not contiguous 2.1 s; of a list of 1,000,000 numbers 18 ms; of 1,000,000 texts that may be
# names of files 1.8 s, the first time; of a frame of 1,000,000 rows and 2 columns 0.33 s; of 20,000 dicts that hold an
# array and a number 66 ms, the first time 0.48 s; of as many pairs of a small picture and a label 76 ms and 0.29 s.
_BYTE_S, _SCATTERED_BYTE_S = 0.42e-9, 2.1e-9
_ENTRY_S, _FRAME_VALUE_S = 25e-9, 0.16e-6
_TEXT_S = 1.8e-6
_OPEN_S = 5e-6
"""The first time, of an object, and of a place that holds some."""
_PLACE_S, _PART_S = 1e-6, 3e-6
"""Later, of a place, and of what is one number, beside its bytes."""

# Methods through which torch, and a pipeline, come to an item.
_ENTRIES = frozenset({"__getitem__", "__getitems__", "__call__", "forward", "__len__", "__getattr__", "__iter__"})

# Bit of `type.__flags__` that classes written in Python have (Py_TPFLAGS_HEAPTYPE in CPython's object.h).
_HEAP_TYPE = 1 << 9

# Classes of C whose objects do not change, or are never what an item is made from.
_CONSTANT = (
    np.generic, np.dtype, np.ufunc, torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format,
    range, slice, property, staticmethod, classmethod, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType, types.CodeType,
    weakref.ReferenceType, logging.Logger, PurePath,
)  # fmt: skip
# pyarrow's tables, arrays and types have no way to be written to.
_CONSTANT_MODULES = frozenset({
    "re", "_thread", "datetime", "_datetime", "decimal", "_decimal", "fractions", "uuid", "operator", "_operator",
    "zoneinfo", "pyarrow", "threading", "_struct", "_abc",
})  # fmt: skip


@dataclass(slots=True)
class _Part:
    """Something whose content is one number."""

    name: str
    number: Callable[[], object]
    then: object
    cost_s: float
    """Of asking for the number once."""
    shared: bool
    """It lies in memory that copies of this process have as well."""


class Contents(Walk):
    """All that a data set consists of, and whether that has changed: asked when an epoch begins.

    What `beside` compares, which is asked more often and knows what items themselves change, is left to it.
    """

    def __init__(
        self,
        root: Any,
        *,
        beside: Watch | None = None,
        files: OpenedFiles | None = None,
        item_s: float = 0.0,
        num_items: int | None = None,
        key: Key | None = None,
    ) -> None:
        """Looks into everything at once.

        Arguments:
            beside: a `Watch` over the same root, made before; None: nothing is left to one.
            files: those that items are read from.
            item_s: seconds that an item takes, of `num_items` in all; None: looking may take as long as it takes.
            key: is told all of it.

        Raises:
            Unseen: it holds what cannot be compared, or so much that it takes too long.
        """
        super().__init__(root)
        self._elsewhere = {} if beside is None else beside.places
        self._key = key
        self._parts: list[_Part] = []
        self._paths = OpenedFiles()
        self._files = files
        self._classes: dict[type, tuple[str, set[str]]] = {}
        self._names: set[str] = set()
        self._item_s = item_s if num_items is not None else None
        self._share, self._spent_s, self._saved_s = FIRST_SHARE, 0.0, item_s * (num_items or 0)
        with _collector_rests():
            while self._waiting:
                self._go(float("inf"))
                self._waiting.extend((name, function, 0) for name, function in self._called())
        self._share, self._spent_s = SHARE, 0.0
        self._again_s = _PLACE_S * len(self.places) + math.fsum(part.cost_s for part in self._parts)
        self._visited.clear()

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
        return bool(self._paths)

    def differs(self) -> str | None:
        """As `changed`, whatever it takes."""
        with _collector_rests():
            return self._compare()

    def _compare(self) -> str | None:
        for place in self.places.values():
            if place.changed():
                return place.what()
        for part in self._parts:
            if part.number() != part.then:
                return part.name
        return self.changed_for_copies()

    def changed_for_copies(self) -> str | None:
        """What copies of this process, made before, find changed as well: shared memory, a file; None if nothing is."""
        for part in self._parts:
            if part.shared and part.number() != part.then:
                return part.name
        file = self._changed_file()
        return None if file is None else f"the file {file}"

    def _changed_file(self) -> str | None:
        paths = (files.changed() for files in (self._paths, self._files) if files is not None)
        return next((path for path in paths if path is not None), None)

    def _spend(self, cost_s: float) -> None:
        self._spent_s += cost_s
        if self._item_s is not None and self._spent_s > LEAST_S + self._share * self._saved_s:
            raise Unseen(
                f"it holds so much that looking for changes takes {self._spent_s:.2g} s, more than {self._share:.0%} "
                f"of the {self._saved_s:.2g} s that its items take"
            )

    def _open(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        self._spend(_OPEN_S)
        return super()._open(name, value)

    def _add(self, name: str, number: Callable[[], object], cost_s: float, *, shared: bool = False) -> None:
        """`cost_s`: of asking for the number, beside what anything costs."""
        self._spend(_PART_S + cost_s)
        then = number()
        self._parts.append(_Part(name, number, then, _PART_S + cost_s, shared))
        if self._key is not None:
            self._key.note(name, then)

    def _meet(self, name: str, value: Any) -> None:
        if type(value) is str:
            self._note_paths((value,))
        if self._key is not None:
            self._key.meet(name, value)

    def _numbers(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized or value.is_nested:
                raise Unseen(f"changes to a tensor like {name} ({value.device}, {value.layout}) cannot be seen")
            cost_s = _bytes_s(value, value.is_contiguous())
            shared = value.is_shared()  # type: ignore[no-untyped-call]
            self._add(f"the tensor {name}", partial(of_tensor, value), cost_s, shared=shared)
        elif isinstance(value, np.memmap) and value.mode == "r" and value.filename is not None:
            self._paths.note(value.filename)  # nobody writes through it, and who writes to the file changes its time
            if self._key is not None:
                self._key.note(value.dtype, value.shape, value.strides, value.offset)
                self._key.note_files((value.filename,))
        elif value.dtype.hasobject:
            self._place("container", value, lambda: Place(name, lambda: value.ravel().tolist()))
            entries = value.ravel().tolist()
            if self._key is not None:
                self._key.note(value.shape)
                self._key.note_entries(name, entries)
            yield from ((f"an entry of {name}", part) for part in entries if type(part) not in ATOMS)
        else:
            cost_s, shared = _bytes_s(value, value.flags.c_contiguous), isinstance(value, np.memmap)
            self._add(f"the array {name}", partial(of_array, value), cost_s, shared=shared)

    def _container(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        known = ("container", id(value)) in self._elsewhere
        entries = entries_of(value)
        others = set(map(type, entries)) - ATOMS
        fixed = not others and (known or isinstance(value, tuple | frozenset))
        # The order of a set is chance, and another one in the next run.
        if not fixed and not known and type(value) in (list, tuple, dict) and others <= CONTAINERS:
            plain = plain_texts(value)
            if plain is not None:
                texts, num_entries = plain
                self._note_paths(texts)
                self._add(name, partial(of_plain, value), _ENTRY_S * num_entries)
                return
        self._note_paths(entries)
        if self._key is not None:
            self._key.note_entries(name, value)
        if fixed:
            return
        if not isinstance(value, tuple | frozenset):
            self._place("container", value, lambda: Place(name, partial(entries_of, value)))
        yield from ((f"an entry of {name}", child) for child in entries if type(child) not in ATOMS)

    def _place(self, kind: str, owner: Any, place: Callable[[], Place]) -> None:
        if (kind, id(owner)) not in self._elsewhere:
            self._spend(_OPEN_S)
            super()._place(kind, owner, place)

    def _object(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        slots = slots_of(value)
        if slots:
            read = partial(slot_values, value, slots)
            self._place("slots", value, lambda: Place(f"an attribute of {name}", read, keys=lambda: slots))
        yield from super()._object(name, value)

    def _other(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        if isinstance(value, _CONSTANT) or kind is object or kind.__module__.partition(".")[0] in _CONSTANT_MODULES:
            self._note_paths((value,))
            if self._key is not None:
                self._key.note_constant(name, value)
        elif callable(value) and hasattr(value, "__name__") and not _is_of_python(kind):
            # A function of C. What one remembers (`functools.lru_cache`), the script would be handed too.
            yield name, getattr(value, "__wrapped__", None)
        elif not self._is_known(name, value):
            if not _is_of_python(kind) and not isinstance(value, types.ModuleType):
                self._opaque(name, value)
            yield from super()._other(name, value)

    def _is_known(self, name: str, value: Any) -> bool:
        """True for an object whose content is told in a way of its own."""
        if isinstance(value, io.IOBase):
            self._open_file(name, value)
        elif is_picture(value):
            width, height = value.size
            num_bytes = width * height * len(value.getbands())
            self._add(f"the picture {name}", lambda: zlib.crc32(value.tobytes()), _BYTE_S * num_bytes)
        elif is_frame(value):
            self._add(name, partial(of_frame, value), _FRAME_VALUE_S * value.size)
        else:
            return False
        return True

    def _open_file(self, name: str, value: Any) -> None:
        if isinstance(value, io.BytesIO | io.StringIO):
            cost_s = _BYTE_S * len(value.getvalue())
            self._add(name, lambda: zlib.crc32(marshal.dumps(value.getvalue(), 2)), cost_s)
        else:
            if self._key is not None:
                self._key.refuse(f"{name} is an open file, a {type(value).__qualname__}")
            if isinstance(getattr(value, "name", None), str):
                self._paths.note(value.name)

    def _opaque(self, name: str, value: Any) -> None:
        """An object of C, with state that no attribute shows: its bytes, if it lets us see them."""
        try:
            with memoryview(value) as view:
                num_bytes = view.nbytes
        except TypeError:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise Unseen(f"changes inside of {name}, a {kind}, cannot be seen") from None
        self._add(name, lambda: zlib.crc32(memoryview(value)), _BYTE_S * num_bytes)

    def _class(self, name: str, value: type, entries: set[str]) -> None:
        for kind in value.__mro__:
            if kind.__flags__ & _HEAP_TYPE and not is_library(kind.__module__):
                if kind not in self._classes:
                    self._classes[kind] = (kind.__name__, set(_ENTRIES))
                    read = partial(_class_values, kind)
                    self._place("class", kind, lambda: Place(f"an attribute of the class {kind.__name__}", read))  # noqa: B023 - called at once
                    self._waiting.extend(
                        (f"{kind.__name__}", child, 0) for child in read() if not hasattr(child, "__get__")
                    )
                self._classes[kind][1].update(entries)

    def _module(self, name: str, module: types.ModuleType, code: types.CodeType) -> Iterator[tuple[str, Any]]:
        if self._key is not None:
            self._key.note_module(module)
        yield from super()._module(name, module, code)

    def _named(self, code: types.CodeType) -> None:
        self._names.update(attribute_names(code))
        if self._key is not None:
            self._key.note_code(code)

    def _called(self) -> list[tuple[str, Any]]:
        """Methods that the code seen so far may call."""
        found = []
        for kind, (name, entries) in self._classes.items():
            for key in sorted((self._names | entries) & vars(kind).keys()):
                function = _behind(vars(kind)[key])
                if isinstance(function, types.FunctionType) and id(function) not in self._visited:
                    found.append((f"{name}.{key}", function))
        return found

    def _note_paths(self, values: Collection[Any]) -> None:
        if self._key is not None:
            self._key.note_files(values)
        for value in values:
            if isinstance(value, PurePath) or (type(value) is str and _may_be_path(value)):
                self._spend(_TEXT_S)
                self._paths.note(value, only_files=True)


@contextmanager
def _collector_rests() -> Iterator[None]:
    """Looking makes many small objects, and is not to pay for a collection of all that a large script holds."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _bytes_s(value: Any, contiguous: bool) -> float:
    return float((_BYTE_S if contiguous else _SCATTERED_BYTE_S) * value.nbytes)


def _class_values(kind: type) -> list[Any]:
    return [part for key, part in vars(kind).items() if not key.startswith("__")]


def _is_of_python(kind: type) -> bool:
    """True if all that its objects hold are attributes."""
    if any(base is not object and not base.__flags__ & _HEAP_TYPE for base in kind.__mro__):
        return issubclass(kind, int | float | str | bytes | complex | BaseException) and kind.__flags__ & _HEAP_TYPE > 0
    return hasattr(kind, "__dictoffset__") and (
        kind.__dictoffset__ != 0 or any("__slots__" in vars(base) for base in kind.__mro__)
    )


def _behind(part: Any) -> Any:
    """The function of a property, class method or static method."""
    if isinstance(part, property):
        return part.fget
    return part.__func__ if isinstance(part, staticmethod | classmethod) else getattr(part, "func", part)


def _may_be_path(text: str) -> bool:
    """True if it is worth asking whether a file has this name: a question takes 1 us, and texts may be many."""
    named = "/" in text or "\\" in text or 0 < len(text) - text.rfind(".") <= 8
    return named and len(text) < 1024 and "\n" not in text and "\0" not in text
