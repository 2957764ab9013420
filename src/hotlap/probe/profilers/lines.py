"""`lines`: a sampling look at the training thread, so that time comes with a file and a line.

What a sampler sees is biased where it cannot look: a C call that holds the GIL keeps it waiting, and Python code lets
it in only now and then. So a sample weighs as much as the time since the last one, not one: a sampler that was kept out
for 50 ms finds the thread still in the line of the call that kept it out (Python hands the GIL over right after a call)
and gives it the 50 ms. And threads are switched more often in this window than usual, or all would seem to pass where a
line gives the GIL away by itself: of items of 40 us it gave one line 98% that takes 60%, and gives it 65% now.

In a training for real that compiles nothing is sampled: between frames of torch's compiler a sampler met what was no
frame (a compiled `optimizer.step`, Python 3.11, torch 2.13), and to read that may end the process.
"""

import ctypes
import linecache
import math
import random
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Container, Generator, Mapping
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, ClassVar, NamedTuple

from hotlap.probe.clock import PHASES
from hotlap.probe.profilers.profiler import Profiler
from hotlap.probe.sites import library_below, outwards, users_frame
from hotlap.record import HotLine, Phase

# With n samples a share has a standard error of at most 0.5 / sqrt(n): 600 tell a half from 46 to 54%.
_ENOUGH = 600

# Between two looks, on average: often at first, rarely when there are enough of them and the steps are long.
_SHORT_S, _LONG_S = 0.001, 0.005

# How long Python code may keep the sampler out, in this window (the default is 5 ms: steps may be shorter).
_SWITCH_S = 0.00001

# A stack that is deeper than can be walked before that is given up: its time is nobody's.
_TRIES = 20

# <linux/prctl.h>. By default a thread's wait may last 50 us longer than it should.
_PR_SET_TIMERSLACK = 29

_MAX_LINES = 20

# Frames of it between the user's line and what runs: hotlap's own work, which is in no step's time.
_SESSION = str(Path(__file__).parents[1] / "session.py")


# Functions within a line, by how their names end: to a reader it is one line of the function around them.
_WITHIN = re.compile(r"(?:(?:^|\.)(?:<locals>\.)?<(?:listcomp|setcomp|dictcomp|genexpr|lambda)>)+$")


class _Place(NamedTuple):
    path: str
    line: int
    function: str
    phase: Phase
    inside: bool = True
    library: str = ""


_Sample = tuple[float, _Place | None]
"""(seconds, where)."""


class Lines(Profiler):
    """Fills `Run.hot_lines`: in which lines of the user's the training thread is met, and in which phase."""

    # A step of 50 us needs many for the samples; one of a second needs the fewest.
    num_steps: ClassVar[int] = 20_000
    patience_s: ClassVar[float] = 10.0
    fewest_steps: ClassVar[int] = 3

    def __init__(self) -> None:
        super().__init__()
        self._new: list[tuple[float, float, _Place | None]] = []
        """(time of the sample before, its own time, where), since the last whole step."""
        self._samples: list[_Sample] = []
        """Those of whole steps."""
        self._over = threading.Event()

    def steps(self) -> Generator[None]:
        """Until there are enough samples of the training thread, which is the one that begins this."""
        if self.session.plan.whole and self.session.facts.compiled:
            return
        self.patch.on_undo(partial(_restore, sys.getswitchinterval()))
        sys.setswitchinterval(_SWITCH_S)
        sampler = threading.Thread(
            target=self.guarded(self._sample), args=(threading.get_ident(),), name="hotlap-lines", daemon=True
        )
        sampler.start()
        try:
            for made in self.paced():
                yield
                count = len(self._new)
                self._samples += of_steps(self._new[:count], validation=self.validated())
                del self._new[:count]
                if len(self._samples) >= _ENOUGH and made + 1 >= self.fewest_steps:
                    return
        finally:
            self._over.set()
            sampler.join(timeout=1.0)

    def fields(self) -> Mapping[str, Any]:
        """Costliest first."""
        recorded = dict(zip(PHASES, self.session.ledger.phase_s(), strict=True))
        lines = hot_lines(self._samples, phase_s=recorded)
        return {"hot_lines": lines} if lines else {}

    def _sample(self, thread: int) -> None:
        # Its own stream: the script's random numbers stay what they are. Irregular, so that it keeps step with nothing.
        draw = random.Random(0).uniform
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)  # ns, of this thread
        last = time.perf_counter()
        while not self._over.is_set():
            mean_s = _SHORT_S if len(self._samples) + len(self._new) < _ENOUGH else _LONG_S
            time.sleep(draw(0.5, 1.5) * mean_s)
            where = self._look(thread)
            now = time.perf_counter()
            self._new.append((last, now, where))
            last = now

    def _look(self, thread: int) -> "_Place | None":
        """Once more where the thread went on meanwhile: a frame that is over tells the line of its return, and nothing
        of what called it."""
        for _ in range(_TRIES):
            frame = sys._current_frames().get(thread)
            if frame is None:
                break
            stood = frame.f_lasti
            phase = self.session.clock.phase()
            where = place(frame, phase, self.session.clock.callers.get(phase))
            if sys._current_frames().get(thread) is frame and frame.f_lasti == stood:
                return where
        return None


def _restore(switch_s: float) -> None:
    # If the script changed it meanwhile, its choice stays.
    if abs(sys.getswitchinterval() - _SWITCH_S) < 1e-6:
        sys.setswitchinterval(switch_s)


def place(frame: FrameType, phase: Phase, callers: Container[CodeType] | None = None) -> _Place | None:
    """The innermost line of the user's, 0 where there is none, or the frame is gone already; None in hotlap's own work.
    `callers`: of ours, what calls whatever makes this phase; None: nothing does."""
    found = users_frame(frame)
    if any(
        inner.f_code.co_filename == _SESSION for inner in takewhile(lambda inner: inner is not found, outwards(frame))
    ):
        return None
    line = None if found is None else _line(found)
    if found is None or line is None:
        return _Place("", 0, "", phase)
    code = found.f_code
    inside = callers is None or any(outer.f_code in callers for outer in outwards(found.f_back))
    function = _WITHIN.sub("", code.co_qualname) or "<module>"
    return _Place(code.co_filename, line, function, phase, inside, library_below(frame, found))


def _line(frame: FrameType) -> int | None:
    """That of the instruction before, where one has none: a loop's jump back behind an `if`, at which Python lets the
    sampler in, so that half of the samples of such a loop were of no line (Python 3.11)."""
    if frame.f_lineno is not None:
        return frame.f_lineno
    before = [line for start, _, line in frame.f_code.co_lines() if line is not None and start <= frame.f_lasti]
    return before[-1] if before else None


def of_steps(
    samples: list[tuple[float, float, _Place | None]], *, validation: tuple[float, float] | None
) -> list[_Sample]:
    """(time of the sample before, its own time, where) -> (seconds, where). The time of a validation, from begin to
    end, is in no step, and none of its samples is among them."""
    begin, end = validation or (math.inf, math.inf)
    return [
        (now - (max(before, end) if now > end else before), where)
        for before, now, where in samples
        if not begin <= now <= end
    ]


def hot_lines(samples: list[_Sample], *, phase_s: Mapping[Phase, float]) -> tuple[HotLine, ...]:
    """(seconds, where) of each sample -> seconds of a step by line, costliest first.

    The steps that were looked at are slower than others. So what is taken from them is the part of each phase that a
    line has; `phase_s` are the seconds of a step that the phases have in the recorded ones.
    """
    seconds: dict[_Place, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    looked_at: dict[Phase, float] = defaultdict(float)
    for weight_s, seen in samples:
        if seen is not None:
            seconds[seen._replace(library="")][seen.library] += weight_s
            looked_at[seen.phase] += weight_s
    step_s = {
        where: phase_s[where.phase] * sum(spent.values()) / looked_at[where.phase]
        for where, spent in seconds.items()
        if any(spent.values())
    }
    costliest = sorted((where for where in step_s if where.line), key=lambda where: -step_s[where])[:_MAX_LINES]
    return tuple(
        HotLine(
            path=str(Path(where.path).resolve()),
            line=where.line,
            function=where.function,
            text=linecache.getline(where.path, where.line).strip(),
            phase=where.phase,
            step_s=step_s[where],
            inside=where.inside,
            library=max(seconds[where], key=seconds[where].__getitem__),
        )
        for where in costliest
        if step_s[where]
    )
