"""Which levers, on top of which: one queue of what to do next, each with its estimate, and one budget.

A candidate is timed; where it gained, the gate compares training under it; it is accepted, and all others are looked
at anew, on top of it. Where the gate's runs do not fit into the budget any more, it is timed all the same, so that the
user knows what more time would bring.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from hotlap import levers
from hotlap.experiment import PLANNED, Design, Effect, Executor, Rule, Stack, compare
from hotlap.experiment.total import too_late
from hotlap.gate import Ruling
from hotlap.levers import Numerics
from hotlap.record import Run, Verdict
from hotlap.search.candidates import WORTH_TEN_RUNS, Candidate, Candidates, Key
from hotlap.search.reasons import why_not_judged
from hotlap.search.study_log import StudyLog
from hotlap.units import factor

# A study goes on, where the budget is ours to choose, for what could take this part off a step: less is hardly shown on
# a machine on which the usual budget was not enough.
_WORTH_MORE = 0.10

# Heats at most for what is tried last, to show what was too small for the usual number, where there is time.
_PLANNED_LAST, _MOST_LAST = 8, 16

# A gain of other numbers (bf16) from which on the gate's ten runs come before all other trials: few of those bring as
# much, and on a long step there may be no time for both.
_BEFORE_ALL = 1.25

# Heats that decide whether something is faster, where that is clear.
_CLEAR = 2
# And that the confirmation takes, where it is.
_CONFIRMING = 3


class Gate(Protocol):
    """Is training unharmed? Makes the runs that it takes to say so."""

    known: list[Run]
    """Runs of the script as written, with evidence."""

    def judge(self, stack: Stack, *, replaced: dict[str, str] | None = None) -> Ruling:
        """The script under `stack` (or its patched copy) against the script as written."""
        ...

    def estimate_s(self, stack: Stack) -> float:
        """About what `judge` will take."""
        ...


class Need(Enum):
    """What is to be done with a candidate: the states that it goes through, until a trial of it is in the study."""

    TIMES = auto()
    """Is it faster on top of what is accepted? The budget affords the gate as well, if it is."""
    GATE = auto()
    """It is; training under it was not compared yet."""
    TIMES_ONLY = auto()
    """Times alone: the gate's runs do not fit into the budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing to do, with what it takes."""

    need: Need
    group: tuple[Candidate, ...]
    """Compared in the same heats."""
    heats_s: float = 0.0
    gate_s: float = 0.0
    """For one of the group."""
    keep_s: float = 0.0
    """What must be left afterwards."""


@dataclass(frozen=True, slots=True)
class _Gain:
    candidate: Candidate
    on_top_of: Stack
    effect: Effect


class Search:
    """What was tried is read from the study, so it goes on where it stopped; only gains that wait for their gate are
    known to the running search alone: one that was interrupted times them again."""

    def __init__(self, log: StudyLog, executor: Executor, gate: Gate, candidates: Candidates) -> None:
        self._log = log
        self._executor = executor
        self._gate = gate
        self._candidates = candidates
        self._gains: dict[Key, _Gain] = {}
        self.in_vain: dict[Key, str] = {}
        """What gained and found no time for its gate, with the budget that it takes."""

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        return self._candidates.stack

    @property
    def begun(self) -> bool:
        """At least one lever was tried, whatever came of it."""
        return any(trial.kind == "lever" and trial.scope != "none" for trial in self._log.study.trials)

    @property
    def worth_trying(self) -> bool:
        """A lever is left that promises something."""
        return bool(self._candidates.open())

    @property
    def end_s(self) -> float:
        """What the end of the study takes: heats of the script as written and its patched copy, and the gate."""
        return _CONFIRMING * self._executor.estimate_s(afresh=True) + self._gate.estimate_s(self.stack) + 5.0

    def run(self) -> None:
        """Try what could save most first; take the best of what pays and does no harm; look again; then pairs."""
        self._work_off()
        if self._is_worth_more_time() and self._log.extend():
            self._work_off()
        self._look_for_gains_in_vain()
        for trial in self._candidates.rejected():
            self._log.add(trial)

    def use_the_rest(self) -> None:
        """The study has its result: what is left of the budget times what was not tried, and the user is told of it."""
        self._work_off()
        self._look_for_gains_in_vain()
        untried = ", ".join(self._named(one) for one in self._offered() if one.key not in self._gains)
        if untried:
            self._log.warn(f"The budget was over before {untried} could be tried; raise --budget to try more.")
        for gained, why in self.in_vain.items():
            self._log.warn(why)
            one = self._gains[gained]
            trial = self._log.trial(
                one.effect, levers=one.candidate.specs, on_top_of=one.on_top_of, scope=one.candidate.scope
            )
            self._log.add(replace(trial, why=why))

    # What to do

    def _work_off(self) -> None:
        while (task := next(filter(self._affords, self._queue()), None)) is not None:
            if task.need is Need.GATE:
                self._judge(task.group[0])
            else:
                self._time(task)

    def _affords(self, task: Task) -> bool:
        return self._log.budget.affords(task.heats_s, task.gate_s, keep_s=task.keep_s)

    def _queue(self) -> Iterator[Task]:
        """What could be done now, in the order in which it is worth it; the first that the budget affords is done."""
        open_ = self._candidates.open()
        confirmed = self._log.study.result is not None
        if not confirmed:
            yield from self._to_accept(open_)
        keep_s = self.end_s if self.stack and not confirmed else 0.0
        for one in self._offered():
            if one.key not in self._gains:
                heats_s = self._executor.estimate_s(switched=one.switched)
                yield Task(need=Need.TIMES_ONLY, group=(one,), heats_s=heats_s, keep_s=keep_s)

    def _to_accept(self, open_: Sequence[Candidate]) -> Iterator[Task]:
        """Gains whose gate is short, or worth its time; what was not tried, alone; what waited for that; pairs."""
        gained = [one for one in self._offered() if self._is_timed(one) and not self._waits(one)]
        for one in sorted(gained, key=self._gain_per_s, reverse=True):
            # It was afforded before its heats: they may have taken longer.
            yield self._task([one], 0.0)
        untried = [one for one in open_ if not self._is_timed(one) and not self._waits(one)]
        later = [task for one in self._later() if self._affords(task := self._task([one], self.end_s))]
        kept_s = later[0].heats_s + later[0].gate_s if later and self._has_time_kept(later[0].group[0]) else 0.0
        yield from self._groups([one for one in untried if len(one.levers) == 1], self.end_s + kept_s)
        yield from later
        yield from self._groups([one for one in untried if len(one.levers) > 1], self.end_s)

    def _groups(self, candidates: Sequence[Candidate], keep_s: float) -> Iterator[Task]:
        """Of what is affordable alone, those that can be compared in the same heats: most for its time first. What does
        not fit side by side fits alone."""
        fitting = [one for one in candidates if self._affords(self._task([one], keep_s))]
        tasks = [self._task(group, keep_s) for group in self._candidates.groups(fitting)]
        for task in sorted(tasks, key=lambda task: -task.group[0].bound_s / task.heats_s):
            for size in range(len(task.group), 0, -1):
                yield self._task(task.group[:size], keep_s)

    def _later(self) -> list[Candidate]:
        """What comes when all else is done, in this order: what gained much and waits for its gate; what could not be
        shown; what gained less."""
        waiting = sorted(filter(self._waits, self._candidates.open()), key=self._speed, reverse=True)
        much = [one for one in waiting if self._speed(one) >= WORTH_TEN_RUNS]
        bundle = self._candidates.bundle()
        return [*much, *([bundle] if bundle is not None else []), *waiting[len(much) :]]

    def _has_time_kept(self, one: Candidate) -> bool:
        """Its time is kept while others are tried: what gained, or takes few runs. (Ten would be most of it.)"""
        if one.key in self._gains:
            return self._speed(one) >= WORTH_TEN_RUNS
        return not one.other_numbers

    def _task(self, group: Sequence[Candidate], keep_s: float) -> Task:
        heats_s = _CLEAR * self._executor.estimate_s(len(group) + 1, switched=group[0].switched)
        gate_s = max(self._gate.estimate_s((*self.stack, *one.specs)) for one in group)
        if len(group) == 1 and self._is_timed(group[0]):
            return Task(need=Need.GATE, group=tuple(group), gate_s=gate_s, keep_s=keep_s)
        return Task(need=Need.TIMES, group=tuple(group), heats_s=heats_s, gate_s=gate_s, keep_s=keep_s)

    def _offered(self) -> list[Candidate]:
        """All that is worth a trial."""
        bundle = self._candidates.bundle()
        return [*self._candidates.open(), *([bundle] if bundle is not None else [])]

    def _is_timed(self, one: Candidate) -> bool:
        """It gained on top of what is accepted now."""
        gain = self._gains.get(one.key)
        return gain is not None and gain.on_top_of == self.stack

    def _waits(self, one: Candidate) -> bool:
        """It gained, and its gate has ten runs to make, which would take the time for all others; and what it brings is
        no more than they may. (Where other numbers are accepted already, all gates take as long.)"""
        accepted = any(levers.from_spec(spec).numerics is Numerics.STATISTICAL for spec in self.stack)
        return one.key in self._gains and one.other_numbers and not accepted and self._speed(one) < _BEFORE_ALL

    def _speed(self, one: Candidate) -> float:
        """What it gained, as a factor."""
        return math.exp(self._gains[one.key].effect.mean)

    def _gain_per_s(self, one: Candidate) -> float:
        """What it brings for its time, the gate's included."""
        gate_s = self._gate.estimate_s((*self.stack, *one.specs))
        return math.log(self._speed(one)) / (_CLEAR * self._executor.estimate_s() + gate_s)

    def _is_worth_more_time(self) -> bool:
        """What is left could make a step much shorter: by what was measured; by bounds if nothing was found."""
        step_s = self._candidates.profile().median_step_s()
        left = self._offered()
        if self.stack:
            bundle = self._candidates.bundle()
            left = [one for one in left if one.key in self._gains or one == bundle]
        return any(self._saves_s(one, step_s) >= _WORTH_MORE * step_s for one in left)

    def _saves_s(self, one: Candidate, step_s: float) -> float:
        return step_s * (1 - 1 / self._speed(one)) if one.key in self._gains else one.bound_s

    def _named(self, one: Candidate) -> str:
        """For people."""
        return f"{one.title} again, by more processes" if self._candidates.is_tried(one) else one.title

    # Doing it

    def _time(self, task: Task) -> None:
        """Compare the group; what gained is kept for the gate, and what did not is a trial of the study."""
        first = task.group[0]
        self._log.doing(f"trying {', '.join(map(self._named, task.group))}")
        effects = [Effect(one.arm) for one in task.group]
        compare(
            effects,
            self._executor,
            Design(stack=self.stack, switched=first.switched),
            pooled=self._log.pooled(first.scope),
            rule=Rule(planned=self._planned(first)),
            time_left=lambda: self._log.budget.affords(
                self._executor.estimate_s(switched=first.switched), keep_s=task.keep_s
            ),
        )
        if len(effects) > 1 and all(effect.failure for effect in effects):
            # One of them may have taken the others down with it.
            for one in task.group:
                self._time(Task(need=task.need, group=(one,), keep_s=task.keep_s))
            return
        gained = any(effect.gained for effect in effects)
        for one, effect in zip(task.group, effects, strict=True):
            if effect.gained and self._pays_in_time(effect):
                self._gains[one.key] = _Gain(one, self.stack, effect)
            elif not (gained and effect.open):
                # What is not decided behind a gain is compared again, with it or without.
                self._close(one, effect, None)

    def _planned(self, first: Candidate) -> int:
        """Heats at most. Said before the first, as looks are counted."""
        if len(first.levers) == 1 and not self._candidates.is_tried(first):
            return PLANNED
        left_s = self._log.budget.left_s - self.end_s - self._gate.estimate_s((*self.stack, *first.specs))
        return max(_PLANNED_LAST, min(_MOST_LAST, int(left_s / self._executor.estimate_s())))

    def _pays_in_time(self, effect: Effect) -> bool:
        """What it costs once is paid back within a training as long as the user's."""
        return too_late(effect.break_even_step, self._log.study.total_steps) is None

    def _judge(self, one: Candidate) -> None:
        """Hold a gain to the gate."""
        if not self._log.budget.affords(self._gate.estimate_s((*self.stack, *one.specs)), keep_s=self.end_s):
            self._log.extend()
        self._log.doing(f"checking that {one.title} leaves training unharmed")
        ruling = self._gate.judge((*self.stack, *one.specs))
        self._close(one, self._gains.pop(one.key).effect, ruling)

    def _close(self, one: Candidate, effect: Effect, ruling: Ruling | None) -> None:
        """Write the trial into the study."""
        trial = replace(
            self._log.trial(effect, levers=one.specs, on_top_of=self.stack, scope=one.scope),
            verdict=ruling.verdict if ruling else Verdict.UNDECIDED,
            accepted=ruling is not None and ruling.verdict is Verdict.UNHARMED,
            why=ruling.why if ruling else why_not_judged(effect, self._log.study.total_steps),
            runs=(effect.run,) if ruling and effect.run is not None else (),
            one_time_s=effect.one_time_s if effect.gained else None,
            break_even_step=effect.break_even_step if effect.gained else None,
        )
        self._log.add(trial, known=self._gate.known)

    def _look_for_gains_in_vain(self) -> None:
        budget = self._log.budget
        for one in self._offered():
            if one.key in self._gains and one.key not in self.in_vain:
                gate_s = self._gate.estimate_s((*self.stack, *one.specs))
                needs_s = budget.total_s - budget.left_s + gate_s + self.end_s
                self.in_vain[one.key] = (
                    f"{one.title} gained {factor(self._speed(one))}, and the budget was over before training under it "
                    f"could be compared: that takes --budget {math.ceil(needs_s / 60)}m or more."
                )
