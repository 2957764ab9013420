"""Runs a patched main script in place of the one on disk: `python stand_in.py SCRIPT ARGS...`.

`python SCRIPT` reads the file by itself, past every import hook. This program does what `python` does, with the text
that the plan holds: same `sys.argv`, `sys.path[0]`, `__file__` and `__main__`.
"""

import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the script named on the command line with the text that the plan has for it."""
    from hotlap.record import Plan, load

    plan = load(Path(os.environ["HOTLAP_PLAN"]), Plan)
    script = sys.argv[1]
    text = plan.replaced[str(Path(script).resolve())]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    main_module = sys.modules["__main__"]
    names: dict[str, Any] = vars(main_module)
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    names["__file__"] = script
    names["__doc__"] = None
    exec(compile(text, script, "exec", dont_inherit=True), names)  # the user's own script, which is what was asked for


if __name__ == "__main__":
    main()
