"""Of processes that take turns, the one that may go on."""

import os
import select
from collections.abc import Callable

from hotlap.probe import procfs
from hotlap.record import Turn
from hotlap.record.progress import READY, WARMING

# How often a process that waits for its turn looks whether the parent is still there.
_WAIT_S = 5.0


class Token:
    """That of a trial group: says that a turn is over, waits for the next one. A run that is alone has none."""

    def __init__(self, turn: Turn | None) -> None:
        self._turn = turn
        self._files: tuple[int, int] | None = None

    def wait(self, leave: Callable[[], object], *, warm: bool) -> None:
        """Say that the turn is over (and whether the next step will be timed), and wait for the next one."""
        if self._turn is None:
            return
        if self._files is None:
            self._files = (os.open(self._turn.ready, os.O_WRONLY), os.open(self._turn.go, os.O_RDONLY))
        ready, go = self._files
        os.write(ready, READY if warm else WARMING)
        # Not `select`, which knows the first 1,024 descriptors of a process only: loaders with workers have many.
        waiting = select.poll()
        waiting.register(go, select.POLLIN)
        while not waiting.poll(1e3 * _WAIT_S):
            if procfs.hotlap_is_gone():
                leave()
        os.read(go, 1)
