"""A warning that points to the script."""

import sys
import warnings


def warn(text: str) -> None:
    """Warn, as if the first line that is neither ours nor torch's had done so."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("hotlap", "torch"):
        frame = frame.f_back
        level += 1
    warnings.warn(f"hotlap: {text}", RuntimeWarning, stacklevel=level)
