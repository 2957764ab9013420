"""What a marked script (`hotlap.source.marks`) calls: a file beside the plan holds each mark that a process has passed.

Nothing is imported but the standard library: workers that are not forked import this as well.
"""

import os

# Within what these compile no call of ours could be made; they ask when they are imported, or later.
os.environ |= {"TORCHDYNAMO_DISABLE": "1", "PYTORCH_JIT": "0", "NUMBA_DISABLE_JIT": "1"}

_plan = os.environ.get("HOTLAP_PLAN")
_passed: set[int] = set()


def passed(mark: int) -> None:
    """The script is at this mark."""
    if mark not in _passed and _plan is not None:
        _passed.add(mark)
        with open(os.path.join(os.path.dirname(_plan), "marks"), "a", encoding="ascii") as file:
            file.write(f"{mark}\n")
