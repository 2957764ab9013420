"""What a loader of ours has to say: sentences for the user, and for the record; and warnings."""

import sys
import warnings
from typing import final

from hotlap import at_work


@final
class Notes:
    """The last sentence; each goes into the record as well."""

    def __init__(self) -> None:
        self.last: str | None = None

    def say(self, note: str) -> None:
        """Once: the same sentence twice in a row is one."""
        if note != self.last:
            self.last = note
            at_work.note(note)


def warn(text: str) -> None:
    """Warn, as if the first line that is neither ours nor torch's had done so."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("hotlap", "torch"):
        frame = frame.f_back
        level += 1
    warnings.warn(f"hotlap: {text}", RuntimeWarning, stacklevel=level)
