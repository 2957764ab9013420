"""Modules that were imported ahead, hidden until the script imports them: until then nothing shows that they are there.

They come back group by group, in the order in which they were imported. An import that imports torch on its way is cut
there: the probe starts at that moment, and what comes after it finds the probe's seeds and hooks. What belongs to the
import of a module comes with it: children as attributes of their packages, variables set in the environment, and the
callbacks of `hotlap.probe.imports`. What it prints does not. A name that a module took from another one (`from torch
import compile`) is bound to what stands there when the module comes back, as it would be if it were executed then.
"""

import contextlib
import itertools
import os
import random
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from hotlap.probe import imports

# A few libraries draw an identifier. What is drawn in another way than by words is asked for by data sets, not modules.
_MOST_WORDS = 16

# CPython's own half of importlib.
_BOOTSTRAP: Any = sys.modules["_frozen_importlib"]

# What the callback of torch's import begins with.
_PROBE = "hotlap.probe.start"

# By its type: asking an object for its class may warn.
_BOUND = (FunctionType, BuiltinFunctionType, type)


class UnsoundError(Exception):
    """The modules cannot be imported ahead; the message says why."""


_Owners = list[tuple[dict[str, Any], str]]
"""(names of a module, name there)."""


_Moment = tuple[frozenset[str], Any]
"""(names of the modules that are there, state of Python's generator) at a point within an import."""


def _now() -> _Moment:
    return frozenset(sys.modules), random.getstate()


@dataclass(slots=True)
class _Group:
    """What one import brought, or a part of it."""

    modules: dict[str, ModuleType]
    num_words: int
    """Drawn from Python's generator, 32 bits each."""
    environ: dict[str, str | None] = field(default_factory=dict)
    """Variables that it set, None: removed."""
    replaced: list[tuple[dict[str, Any], str, Any, Any]] = field(default_factory=list)
    """(names of an earlier module, a name there, what it was, what it is)."""
    finished: dict[str, ModuleType] = field(default_factory=dict)
    """Modules of an earlier part that may have been executed to their end in this one."""
    children: list[tuple[dict[str, Any], str, ModuleType]] = field(default_factory=list)
    """(names of a package that came earlier, name of the child in it, child)."""
    bound: list[tuple[dict[str, Any], str, Any, _Owners]] = field(default_factory=list)
    """(names of a module, a name there, its value, where else that is to be had)."""


class Preloaded:
    """Imports modules in the given order; `hide` them before the script starts, in an environment as it was before."""

    def __init__(self, names: Sequence[str], *, users: Collection[str]) -> None:
        """`users`: names of modules that are the script's own files.

        Raises:
            UnsoundError: an import fails, draws random numbers, or needs a file of the script's.
        """
        self._visible = dict(sys.modules)
        self._groups: list[_Group] = []
        self._group_of: dict[str, int] = {}
        self._hidden: list[int] = []
        self._showing = False
        self._cuts: list[_Moment] = []
        asked: set[str] = set()
        imports.after_import("torch", lambda: self._cut([name for name in names if name == _PROBE]))
        with contextlib.closing(_Asking(asked.add)):
            for name in names:
                if name in sys.modules:
                    continue
                self._import(name)
                if name not in asked:
                    raise UnsoundError("the imports of this Python go another way")
                if own := min(asked.intersection(users), default=None):
                    raise UnsoundError(f"{name} imports {own}, which is the script's own")
        for group in reversed(self._groups):
            for owner, key, before, _ in group.replaced:
                owner[key] = before
        self._find_children()
        self._find_bound()

    def hide(self) -> None:
        """Take them out of sight, and bring them back as they are imported."""
        for group in self._groups:
            for names, child, _ in group.children:
                names.pop(child, None)
            for name in group.modules:
                sys.modules.pop(name, None)
        self._hidden = list(range(len(self._groups)))
        if self._groups:
            self._asking = _Asking(self._look)

    def _cut(self, ours: Sequence[str]) -> None:
        """Torch has just been imported: hotlap's own modules come now, as they do in a run."""
        self._cuts.append(_now())
        for name in ours:
            __import__(name)
        self._cuts.append(_now())

    def _import(self, name: str) -> None:
        environ, states = dict(os.environ), _random_states()
        earlier = [(names, dict(names)) for names in map(_names, list(sys.modules.values()))]
        moments = [_now()]
        try:
            __import__(name)
        except BaseException as error:
            raise UnsoundError(f"{name} cannot be imported ahead: {type(error).__name__}: {error}"[:200]) from None
        after = _random_states()
        if any(after.get(kind) != state for kind, state in states.items()):
            raise UnsoundError(f"the import of {name} draws random numbers")
        moments += [*self._cuts, _now()]
        self._cuts = []
        parts = [_part(name, *pair) for pair in itertools.pairwise(moments)]
        keys = {key for key in {*environ, *os.environ} if environ.get(key) != os.environ.get(key)}
        parts[-1].environ = {key: os.environ.get(key) for key in keys}
        parts[-1].replaced = [
            (names, key, value, names[key])
            for names, before in earlier
            for key, value in before.items()
            if issubclass(type(value), _BOUND) and names.get(key, value) is not value
        ]
        self._add(parts)

    def _add(self, parts: Sequence[_Group]) -> None:
        first = len(self._groups)
        self._groups += parts
        for k, part in enumerate(parts, first):
            self._group_of |= dict.fromkeys(part.modules, k)
        if len(parts) > 1:
            # Whoever imports what was on its way when torch was imported gets the whole of it.
            on_its_way = [name for name in parts[0].modules if not name.startswith("torch")]
            self._group_of |= dict.fromkeys(on_its_way, len(self._groups) - 1)
            parts[-1].finished = {name: parts[0].modules[name] for name in on_its_way}

    def _look(self, name: str) -> ModuleType | None:
        last = self._group_of.get(name)
        if last is None:
            return None
        # What a callback imports comes alone: what the script imports has not come so far.
        due = [k for k in self._hidden if k == last or (k < last and not self._showing)]
        outermost, self._showing = not self._showing, True
        for k in due:
            if k in self._hidden:  # else a callback of one before it has asked for it
                self._hidden.remove(k)
                _show(self._groups[k])
        self._showing = not outermost
        if not self._hidden:
            self._asking.close()
        return sys.modules.get(name)

    def _find_children(self) -> None:
        for k, group in enumerate(self._groups):
            for name, module in group.modules.items():
                package, _, child = name.rpartition(".")
                names = _names(sys.modules.get(package))
                if self._group_of.get(package, -1) < k and names.get(child) is module:
                    group.children.append((names, child, module))

    def _find_bound(self) -> None:
        owners: dict[int, _Owners] = {}
        _own(owners, self._visible)
        for group in self._groups:
            for module in (*group.modules.values(), *group.finished.values()):
                names = _names(module)
                for name, value in names.items():
                    if issubclass(type(value), _BOUND) and id(value) in owners:
                        group.bound.append((names, name, value, owners[id(value)]))
            _own(owners, group.modules)


def _part(name: str, begin: _Moment, end: _Moment) -> _Group:
    """What came between two moments of the import of `name`."""
    came = end[0] - begin[0]
    modules = {key: module for key, module in sys.modules.items() if key in came}
    return _Group(modules=modules, num_words=_num_words(name, begin[1], end[1]))


def _num_words(name: str, before: Any, after: Any) -> int:
    """How often Python's generator was asked between two states."""
    twin = random.Random()
    twin.setstate(before)
    for number in range(_MOST_WORDS):
        if twin.getstate() == after:
            return number
        twin.getrandbits(32)
    raise UnsoundError(f"the import of {name} draws random numbers")


def _show(group: _Group) -> None:
    for name, module in group.modules.items():
        sys.modules.setdefault(name, module)
    for names, child, module in group.children:
        names.setdefault(child, module)
    for names, key, before, after in group.replaced:
        if names.get(key) is before:
            names[key] = after
    _bind(group)
    _repeat_effects(group)
    for name in group.modules:
        imports.imported(name)


def _bind(group: _Group) -> None:
    """What has been replaced since in any of the modules that had it."""
    current: dict[int, Any] = {}
    for names, name, value, owners in group.bound:
        if id(value) not in current:
            there = (origin.get(original, value) for origin, original in owners)
            current[id(value)] = next((other for other in there if other is not value), value)
        if current[id(value)] is not value and names.get(name) is value:
            names[name] = current[id(value)]


def _repeat_effects(group: _Group) -> None:
    for name, text in group.environ.items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text
    for _ in range(group.num_words):
        random.getrandbits(32)


def _names(module: Any) -> dict[str, Any]:
    """A module's names; none of what somebody put in the place of a module."""
    return vars(module) if isinstance(module, ModuleType) else {}


def _own(owners: dict[int, _Owners], modules: dict[str, ModuleType]) -> None:
    """Where each function and class is to be had."""
    for module in modules.values():
        names = _names(module)
        for name, value in names.items():
            if issubclass(type(value), _BOUND):
                owners.setdefault(id(value), []).append((names, name))


def _random_states() -> dict[str, Any]:
    """Of NumPy's and torch's generators, if they are there."""
    found: dict[str, Any] = {}
    if "numpy.random" in sys.modules and hasattr(sys.modules["numpy"], "random"):
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        found["numpy"] = kind, keys.tobytes(), rest
    if "torch" in sys.modules:
        found["torch"] = sys.modules["torch"].default_generator.get_state().tolist()
    return found


class _Asking:
    """Until it is closed, `look` is called for each module that is not in `sys.modules`, before it is searched for, and
    what it answers is taken.

    All imports come by `_find_and_load` (CPython's Python/import.c, and `importlib.import_module`), whatever finders
    there are.
    """

    def __init__(self, look: Callable[[str], ModuleType | None]) -> None:
        search = self._search = _BOOTSTRAP._find_and_load

        def _find_and_load(name: str, import_: Any) -> Any:
            module = look(name)
            return search(name, import_) if module is None else module

        # Python takes importlib's own frames out of the traceback of an error in a module: so it does with this one.
        _find_and_load.__code__ = _find_and_load.__code__.replace(co_filename=search.__code__.co_filename)
        self._ours = _BOOTSTRAP._find_and_load = _find_and_load

    def close(self) -> None:
        """As it was before."""
        if _BOOTSTRAP._find_and_load is self._ours:
            _BOOTSTRAP._find_and_load = self._search
