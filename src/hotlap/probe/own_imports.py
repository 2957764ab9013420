"""Names of Python's modules that files of the script's have as well: hotlap and the script get their own each.

A `statistics.py` beside the script comes before Python's own, so hotlap would be given it, or the script hotlap's.
"""

import os
import sys
from types import ModuleType
from typing import Any

_PYTHONS = os.path.dirname(os.__file__)


def _folder_of_script() -> str:
    """Of the script, else the current one: Python puts it in front of the search when it starts the script."""
    script = "" if sys.argv[0] in ("", "-c", "-m") else sys.argv[0]
    try:
        return os.path.dirname(os.path.realpath(script)) if script else os.getcwd()
    except OSError:  # it is gone
        return ""


_first = _folder_of_script()
_ours: dict[str, ModuleType] = {}
"""What hotlap has imported under names that are the script's."""


class OwnImports:
    """Within, imports find Python's own modules; afterwards names that the script has are the script's again."""

    def __enter__(self) -> None:
        self._path = list(sys.path)
        place = sys.path.index(_PYTHONS) if _PYTHONS in sys.path else 0
        self._folders = frozenset(filter(None, (_first, *sys.path[:place]))) - {_PYTHONS}
        sys.path.sort(key=lambda entry: entry in self._folders)
        there = ((name, sys.modules.get(name)) for name in sys.stdlib_module_names)
        self._theirs = {name: module for name, module in there if module is not None and self._is_theirs(module)}
        for name in self._theirs:
            del sys.modules[name]
        self._before = sys.stdlib_module_names & sys.modules.keys()
        sys.modules.update(_ours)

    def __exit__(self, *_: object) -> None:
        sys.path[:] = self._path
        for name in (sys.stdlib_module_names & sys.modules.keys()) - self._before:
            if self._has(name):
                _ours[name] = sys.modules.pop(name)
        sys.modules.update(self._theirs)

    def _is_theirs(self, module: Any) -> bool:
        return os.path.dirname(getattr(module, "__file__", None) or "") in self._folders

    def _has(self, name: str) -> bool:
        return any(
            os.path.exists(os.path.join(folder, file))
            for folder in self._folders
            for file in (f"{name}.py", os.path.join(name, "__init__.py"))
        )
