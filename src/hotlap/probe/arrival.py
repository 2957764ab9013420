"""From the start of a Python process to the moment when torch is there: seeds, replaced sources, the import hook."""

import os
import random
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.record import Plan, load


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


def await_torch(plan_path: str) -> None:
    """Start the probe as soon as torch has been imported; until then only seed and serve replaced sources."""
    plan = load(Path(plan_path), Plan)
    if not plan.whole or os.environ.get("HOTLAP_PARENT") == str(os.getppid()):
        # A real training may outlive the shell that started it, as it would without us.
        _die_with_parent()
    serve_replaced(plan.replaced)
    if plan.seed is not None:
        random.seed(plan.seed)
        sys.meta_path.insert(0, _AfterImport("numpy", lambda: _seed_numpy(plan)))

    def start() -> None:
        from hotlap.probe.session import start as start_probe

        start_probe(plan)

    sys.meta_path.insert(0, _AfterImport("torch", start))


def _seed_numpy(plan: Plan) -> None:
    import numpy as np

    np.random.seed(plan.seed)


def _die_with_parent() -> None:
    """On Linux the kernel ends this process when hotlap is gone, however it went: no orphan is left."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def serve_replaced(replaced: Any) -> None:
    """Let imports of the given files (absolute path -> text) run that text instead of what is on disk."""
    if not replaced:
        return
    texts = dict(replaced)
    read_code = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = texts.get(str(Path(path).resolve()))
        # Compiled here and now: a cached .pyc on disk belongs to the other text.
        return read_code(self, fullname) if text is None else compile(text, path, "exec", dont_inherit=True)

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010 - as above
