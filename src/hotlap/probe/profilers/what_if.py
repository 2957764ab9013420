"""What a setting costs, seen by leaving it off: blocks of steps with it and without it, in turns."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch

from hotlap.levers.lever import Patch
from hotlap.probe.procfs import Process
from hotlap.probe.profilers.cpu import neighbours, strangers, usable_cores
from hotlap.probe.profilers.profiler import Profiler
from hotlap.record import Scalar, WhatIf
from hotlap.record.moments import median

# The first step after a switch builds what the others find (a pool of threads), so it is not timed. Of steps that are
# longer than half a second a block has one that is: what disturbs a step for some milliseconds does not matter there.
_BLOCK, _LEAST_BLOCK = 4, 2
_LONG_STEP_S = 0.5

# Pairs of blocks: five, of short steps as many more as come in this time, because one that was disturbed among five
# hides a third of a step. Of long steps fewer are made once a setting was given so long, but never fewer than two.
_PAIRS, _MOST_PAIRS = 5, 15
_MORE_S = 0.5
_SETTING_S = 3.0
_LEAST_PAIRS = 2

# A clock may not tick within a step that does nothing.
_TICK_S = 1e-9


@dataclass(slots=True)
class _Question:
    setting: str
    now: Scalar
    other: Scalar
    switch: Callable[[Any], object]
    now_s: list[float] = field(default_factory=list)
    other_s: list[float] = field(default_factory=list)


class WhatIfs(Profiler):
    """WINDOW: empty where the script's settings leave nothing to ask, as in most. Training goes on under either."""

    num_steps: ClassVar[int] = 4 * _MOST_PAIRS * 2 * _BLOCK

    def __init__(self) -> None:
        super().__init__()
        self._answers: list[WhatIf] = []
        self._at_begin: tuple[float, Mapping[int, Process]] = (0.0, {})
        """When, and the other programs then."""

    def put_hooks(self, patch: Patch) -> None:
        """Look at the other programs."""
        self._at_begin = time.perf_counter(), strangers()

    def steps(self) -> Generator[None]:
        """Blocks of steps under either setting, in the order ABBA, until each question has its answer."""
        block_steps = _LEAST_BLOCK if sum(self.session.clock.last_spent or ()) > _LONG_STEP_S else _BLOCK
        for question in list(self._asked()):
            begun, pairs = time.perf_counter(), 0
            sides = [(question.now, question.now_s), (question.other, question.other_s)]
            try:
                while not _is_enough(pairs, time.perf_counter() - begun):
                    for setting, blocks_s in sides:
                        question.switch(setting)
                        seconds = []
                        for _ in range(block_steps):
                            step_begun = time.perf_counter()
                            yield
                            seconds.append(time.perf_counter() - step_begun)
                        blocks_s.append(max(_TICK_S, median(seconds[1:])))
                    sides.reverse()
                    pairs += 1
            finally:
                question.switch(question.now)
                if min(len(question.now_s), len(question.other_s)) >= _LEAST_PAIRS:
                    self._answers.append(_answer(question))

    def _asked(self) -> Iterator[_Question]:
        """About which settings is there to be asked?"""
        threads, cores = torch.get_num_threads(), self._cores()
        if threads != cores:
            # Not the name that the script knows: a call of that counts as the script's own choice.
            yield _Question("threads", threads, cores, torch._C.set_num_threads)
        if self.session.facts.anomaly_mode or torch.is_anomaly_enabled():
            yield _Question("anomaly-mode", True, False, self._allow_anomaly())
        if torch.are_deterministic_algorithms_enabled():
            warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
            yield _Question(
                "deterministic", True, False, partial(torch.use_deterministic_algorithms, warn_only=warn_only)
            )
        # This leaves the script's profiler as it is, but the operators of this thread do not report to it meanwhile.
        if torch._C._autograd._profiler_enabled():
            yield _Question("profiler", True, False, torch._C._autograd._enable_record_function)

    def _cores(self) -> int:
        """This process's part of them where other programs compute on them as well. (Not of several processes of one
        command: each would ask at another time.)"""
        cores = max(1, math.floor(usable_cores()))
        begun, first = self._at_begin
        found = neighbours(self.session.out, first, strangers(), time.perf_counter() - begun)
        return cores if any(one.ours for one in found) else max(1, cores // (1 + len(found)))

    def _allow_anomaly(self) -> Callable[[Any], None]:
        always, facts = torch.is_anomaly_enabled(), self.session.facts

        def switch(on: bool) -> None:
            facts.bars_anomaly_mode = not on
            torch.set_anomaly_enabled(on and always)

        return switch

    def fields(self) -> Mapping[str, Any]:
        """`Run.what_ifs`."""
        return {"what_ifs": tuple(self._answers)}


def _is_enough(pairs: int, seconds: float) -> bool:
    """Pairs of blocks, made in so many seconds."""
    if seconds > _SETTING_S:
        return pairs >= _LEAST_PAIRS
    return pairs == _MOST_PAIRS or (pairs >= _PAIRS and seconds > _MORE_S)


def _answer(question: _Question) -> WhatIf:
    now_s, other_s = median(question.now_s), median(question.other_s)
    ratios = tuple(math.log(a / b) for a, b in zip(question.now_s, question.other_s, strict=False))
    agree = sum((ratio > 0) == (now_s > other_s) for ratio in ratios) / len(ratios)
    return WhatIf(
        setting=question.setting,
        now=question.now,
        other=question.other,
        now_s=now_s,
        other_s=other_s,
        agree=agree,
        log_ratios=ratios,
    )
