"""What a process has imported by its first step, for a template that imports it ahead (`hotlap.probe.template`)."""

import contextlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

from hotlap.probe import imports
from hotlap.probe.sites import file_sha256, is_distributions, is_users, script

# Only the first run is watched, and these two belong to the template itself.
_NOT_AHEAD = ("hotlap.probe.profilers.", "hotlap.probe.template", "hotlap.probe.preloaded")


class Imported:
    """Looks once, and writes when the process leaves."""

    def __init__(self) -> None:
        self.script = script()
        """The file that is run."""
        if self.script is not None:
            with contextlib.suppress(OSError):
                file_sha256(str(Path(self.script).resolve()))  # as it is now: at the end it may be gone
        self._modules: dict[str, ModuleType | None] = {}
        self._environ: dict[str, str] = {}

    def look(self) -> None:
        """The first step is over: the script has imported what it needs, but for what comes later."""
        self._modules = dict(sys.modules)
        self._environ = dict(os.environ)

    def write(self, out: Path) -> None:
        """`imports.json`, if this is the process that the command started, no fork of a template, and it has made a
        step."""
        if not self._modules or os.getsid(0) != os.getpid() or "hotlap.probe.template" in sys.modules:
            return
        modules: list[tuple[str, str | None]] = []
        users: list[str] = []
        for name, module in self._modules.items():
            origin = getattr(getattr(module, "__spec__", None), "origin", None)
            if name == "__main__" or name.startswith(_NOT_AHEAD):
                continue
            if name == "sitecustomize" and origin and is_distributions(origin):
                continue  # it changes nothing that others import, and Python runs it in each fork
            if origin and is_users(origin):
                users.append(name)
            else:
                modules.append((name, origin))
        # As the script asked for them, what it did not import by way of another one first.
        outer = {"", *users}
        asked = [name for name, importer in imports.begun if importer in outer]
        place = {name: k for k, name in enumerate(asked)} | dict.fromkeys(imports.present, -1)
        modules.sort(key=lambda pair: place.get(pair[0], len(asked)))
        record = {
            "command": sys.orig_argv,
            "modules": modules,
            "users": users,
            "barred": [name for name, module in self._modules.items() if module is None],
            "environ": self._environ,
            "dlopenflags": sys.getdlopenflags(),
        }
        (out / "imports.json").write_text(json.dumps(record), encoding="utf-8")
