"""Runs an edited main script in place of the one on disk: `python stand_in.py SCRIPT ARGS...`.

`python SCRIPT` reads the file by itself, past every import hook. This program does what `python` does, with the text
that is served for it: same `sys.argv`, `sys.path[0]`, `__file__` and `__main__`.
"""

import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the script named on the command line with its edited text."""
    from hotlap.probe.edited import served

    script = sys.argv[1]
    path = os.path.abspath(script)
    text = served(script)
    assert text is not None
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    main_module = sys.modules["__main__"]
    names: dict[str, Any] = vars(main_module)
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    names["__file__"] = path
    names["__doc__"] = None
    exec(compile(text, path, "exec", dont_inherit=True), names)  # the user's own script, which is what was asked for


if __name__ == "__main__":
    main()
