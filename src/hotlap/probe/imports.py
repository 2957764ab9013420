"""Calls back when a module has been imported; what importlib shows of the module is what it shows without hotlap.

It acts where every import comes by that reads source, whoever found the module: `find_spec` may be asked any number of
times before, the import may be lazy, a finder of the script's own may stand in front. The list of finders and the
specs are not touched.
"""

import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

# The class of importlib that executes modules from files, for all loaders that derive from it.
_KIND: Any = next(kind for kind in SourceFileLoader.__mro__ if "exec_module" in vars(kind))
_execute = _KIND.exec_module

_waiting: dict[str, list[Callable[[], None]]] = {}

present: set[str] = set()
"""What had been imported before anything waited."""
begun: list[tuple[str, str]] = []
"""(name, name of the module whose execution imported it, or ""), in the order in which their executions began."""
_executing: list[str] = []


def after_import(name: str, then: Callable[[], None]) -> None:
    """Call `then` once when `name` has been imported; at once if it has been, and is not on its way."""
    there = sys.modules.get(name)
    if there is not None and not getattr(getattr(there, "__spec__", None), "_initializing", False):
        then()
        return
    _waiting.setdefault(name, []).append(then)
    if _KIND.exec_module is _execute:
        present.update(sys.modules)
        _KIND.exec_module = _exec_module


def _exec_module(self: Any, module: ModuleType) -> None:
    begun.append((module.__name__, *(_executing[-1:] or ("",))))  # another thread may import as well
    _executing.append(module.__name__)
    try:
        _execute(self, module)
    finally:
        _executing.pop()
    # Not one that was executed by hand beside the imported one.
    if sys.modules.get(module.__name__) is module:
        imported(module.__name__)


def imported(name: str) -> None:
    """The module has just been imported: call what waits for it."""
    for then in _waiting.pop(name, ()):
        then()


# Python takes importlib's own frames out of the traceback of an error in a module: so it does with this one.
_exec_module.__code__ = _exec_module.__code__.replace(co_filename=_execute.__code__.co_filename)
