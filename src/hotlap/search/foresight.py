"""What the rest of a study will likely ask for: its stages, run through with what is expected of each trial group."""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hotlap.errors import UserError
from hotlap.experiment import Arm, Design, Executor, Group, Stack, TrialGroup
from hotlap.experiment.statistics import FEWEST_SHOWN
from hotlap.gate import Ruling
from hotlap.record import Run, Verdict
from hotlap.search.candidates import CLEAR, Candidates
from hotlap.search.gate_runs import GateRuns
from hotlap.search.study_log import StudyLog

Stages = Callable[[StudyLog, Executor, GateRuns], object]


class _FarEnoughError(Exception):
    """There are no nodes for what comes later."""


class Foresight:
    """Answers with the trial groups to come, the next ones first; for nodes that would idle (`Executor.likely`).

    A lever that was timed is expected to bring what it brought, one that was not nothing, and the gate to pass. Nothing
    that is answered here is ever taken for a result: what comes otherwise was begun in vain.
    """

    def __init__(self, log: StudyLog, stages: Stages) -> None:
        self._log = log
        self._stages = stages
        self._trials = log.study.trials

    def __call__(self, executor: Executor, asked: Sequence[Group]) -> list[Group]:
        """What comes after `asked`, which are under way."""
        if self._log.study.trials is not self._trials:
            # What was timed is in the study.
            self._trials = self._log.study.trials
            executor.timed.clear()
        log = self._log.imagined()
        imagined = _Imagined(executor, log, asked)
        with contextlib.suppress(UserError, _FarEnoughError):
            self._stages(log, imagined, _Passing(log, imagined))
        return imagined.found


class _Imagined(Executor):
    """Begins nothing, and notes what it is asked for."""

    def __init__(self, real: Executor, log: StudyLog, asked: Sequence[Group]) -> None:
        budget, plan = log.budget, log.options.plan
        super().__init__(
            log.runs, plan, real.sizes, script=log.script, limit=budget.limit_s, warn=log.warn, now=log.now
        )
        self.pace, self.timed = real.pace, list(real.timed)
        self._log = log
        self._asked = list(asked)
        self.found: list[Group] = []

    def foresee(self, groups: Sequence[Group]) -> None:
        """These come next."""
        for group in groups:
            under_way = next((one for one in self._asked if one.same(group)), None)
            if under_way is not None:
                self._asked.remove(under_way)
                continue
            self.found.append(group)
            if len(self.found) >= self.nodes:
                raise _FarEnoughError

    def num_ahead(self, design: Design) -> int:
        """Trial groups of such a design that are looked at together."""
        timed = sum(one == design for one, _ in self.timed)
        return timed or (FEWEST_SHOWN if design.afresh else CLEAR)

    def trial_groups(self, designs: Sequence[Design]) -> list[TrialGroup]:
        """Those that were timed since the last trial, and others as expected."""
        return [self._known(design) or self._expected(design) for design in designs]

    def whole(self, design: Design, *, limit_s: float) -> Iterator[list[Run]]:
        """They go one after the other."""
        raise _FarEnoughError

    def _known(self, design: Design) -> TrialGroup | None:
        known = next((one for one in self.timed if one[0] == design), None)
        if known is None:
            return None
        self.timed.remove(known)
        return known[1]

    def _expected(self, design: Design) -> TrialGroup:
        self.foresee([self.group(design, order_seed=0)])
        log_gains = [self._log_gain(arm) for arm in design.arms]
        log_ratios = [one - log_gains[0] for one in log_gains[1:]]
        base = self._log.study.baseline[0]
        runs = [replace(base, step_s=tuple(seconds * math.exp(-gain) for seconds in base.step_s)) for gain in log_gains]
        return TrialGroup(
            log_ratios=tuple(log_ratios),
            failures=(None,) * len(log_ratios),
            runs=tuple(runs[:1] if design.switched else runs),
        )

    def _log_gain(self, arm: Arm) -> float:
        candidates = Candidates(self._log)
        return math.fsum(candidates.alone(spec).log_gain for spec in arm.levers)


class _Passing(GateRuns):
    """Passes everything."""

    def __init__(self, log: StudyLog, executor: _Imagined) -> None:
        super().__init__(log, executor)
        self._imagined = executor

    def look(self) -> None:
        """What levers must know of the loaders is not known before."""
        if not self.known:
            self._imagined.foresee(self.groups([self.plan()]))
            raise _FarEnoughError

    def judge(self, stack: Stack, **_: object) -> Ruling:
        """What the first look makes."""
        self._imagined.foresee(self.groups(self.first_plans(stack)))
        return Ruling(verdict=Verdict.UNHARMED, why="")
