"""The token of a heat, as the child sees it: say that a turn is over, wait for the next one."""

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

from hotlap.record import Turn
from hotlap.record.progress import READY, WARMING

# How often a process that waits for its turn looks whether the parent is still there.
_WAIT_S = 5.0


class Token:
    """Nothing at all for a run that is alone."""

    def __init__(self, turn: Turn | None) -> None:
        self._turn = turn
        self._parent = os.environ.get("HOTLAP_PARENT", "")
        self._files: tuple[int, int] | None = None

    def wait(self, leave: Callable[[], object], *, warm: bool) -> None:
        """Say that the turn is over (and whether the next step will be timed), and wait for the next one."""
        if self._turn is None:
            return
        if self._files is None:
            self._files = (os.open(self._turn.ready, os.O_WRONLY), os.open(self._turn.go, os.O_RDONLY))
        ready, go = self._files
        os.write(ready, READY if warm else WARMING)
        while not select.select([go], [], [], _WAIT_S)[0]:
            if self._parent and not Path(f"/proc/{self._parent}").exists() and sys.platform == "linux":
                leave()
        os.read(go, 1)
