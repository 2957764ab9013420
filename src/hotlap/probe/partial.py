"""What is known so far, written now and then while a long run goes on: a record that survives `kill -9`."""

import time
from typing import TYPE_CHECKING

from hotlap.probe import parting
from hotlap.record import Status, save

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# The first one early, because scripts fail early.
_FIRST_S = 5.0
_EVERY_S = 30.0
# Writing may take this part of the time, 1 in so many.
_SHARE = 500


class Partial:
    """Looks at the clock after each step."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._next_s: float | None = None
        self._read = False

    def step_ended(self, _: int) -> None:
        """A step is over."""
        now_s = time.perf_counter()
        if self._next_s is None:
            self._next_s = now_s + _FIRST_S
        elif now_s >= self._next_s and not self._read:
            self._session.read_now()  # that comes when all were told of this step, so the record is written at the next
            self._read = True
        elif self._read:
            self._read = False
            self._write()
            took_s = time.perf_counter() - now_s
            self._next_s = now_s + max(_EVERY_S, _SHARE * took_s)

    def _write(self) -> None:
        """Errors (a full disk) must not reach the training; the next try may succeed."""
        session = self._session
        try:
            run = parting.make_run(session, Status.KILLED, sample=False, last=False)
            save(run, session.out / f"partial-{session.collectives.rank}.json")
        except Exception:
            return
