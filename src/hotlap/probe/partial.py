"""What is known so far, written now and then while a run goes on: with the last spans (`hotlap.record.spans`) it is
what is left after a `kill -9`."""

import time
from typing import TYPE_CHECKING

from hotlap.probe import run_builder
from hotlap.record import Status, save

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# The first one at once, because scripts fail early; the second, which can tell more, soon.
_SECOND_S = 5.0
_EVERY_S = 30.0
# Writing may take this part of the time, 1 in so many.
_SHARE = 500


class Partial:
    """Looks at the clock after each step."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._next_s = 0.0

    def step_ended(self, step: int) -> None:
        """Step number `step`, from 0, is over."""
        now_s = time.perf_counter()
        if not step or now_s < self._next_s:
            return
        self._write()
        took_s = time.perf_counter() - now_s
        self._next_s = now_s + (max(_EVERY_S, _SHARE * took_s) if self._next_s else _SECOND_S)

    def _write(self) -> None:
        """Errors (a full disk) must not reach the training; the next try may succeed."""
        session = self._session
        try:
            run = run_builder.make_run(session, Status.KILLED, sample=False, last=False)
            save(run, session.out / f"partial-{session.collectives.rank}.json")
        except Exception:
            return
