"""Calls back when a module has been imported, and leaves no trace in the import system then."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def after_import(name: str, then: Callable[[], None]) -> None:
    """Call `then` once when `name` has been imported; at once if it has been."""
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _AfterImport(name, then))


class _AfterImport(MetaPathFinder):
    """Calls back once when the named module has been imported, and is gone from the import system then."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                self._chain(spec.loader)
                return spec
        return None

    def _chain(self, loader: Loader) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self._then()

        # On this one loader object, which serves this one module.
        setattr(loader, "exec_module", exec_module)  # noqa: B010 - a plain assignment to a method is a type error
