"""Which levers, on top of which: rounds that time what is plausible, stack what gains, and prove the stack as one.

A round compares what promises most, in as few designs as there are ways to compare (switched within a process, or in
processes that take turns). What gained is stacked; the stack is compared once with what is accepted so far, and held
to the gate once; where either refuses it, it is halved until what is to blame stands alone. What only seemed to gain is
stacked as well once nothing else is left, and must be shown together; and so, once, is all that is switched and helped
nothing alone, for some levers help only together. Where there is no time for the gate's runs any
more, levers are timed all the same, so that the user knows what more time would bring.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from hotlap.experiment import PLANNED, Arm, Comparison, Design, Effect, Executor, Rule, Stack, compare_all
from hotlap.experiment.statistics import FEWEST_SHOWN, fewest_for_a_gain
from hotlap.experiment.total import never_shorter, too_late
from hotlap.record import Verdict
from hotlap.search import reasons
from hotlap.search.candidates import Candidate, Candidates, compatible, excludes, stacked
from hotlap.search.confirmation import fewest_heats
from hotlap.search.gate_runs import GateRuns
from hotlap.search.reasons import SEEMS_MUCH
from hotlap.search.study_log import StudyLog, facts
from hotlap.units import factor

# A study goes on, where the budget is ours to choose, for what could take this part off a step: less is hardly shown on
# a machine on which the usual budget was not enough.
_WORTH_MORE = 0.10

# Heats at most for what is compared again, to show what was too small for the usual number, where there is time.
_PLANNED_LAST, _MOST_LAST = 8, 16

# A gain of other numbers (bf16) from which on the gate's ten runs come before all other trials: few of those bring as
# much, and on a long step there may be no time for both.
_BEFORE_ALL = 1.25
# From such a gain on their time is kept while others are tried, and they are worth it though nothing is shown yet.
_WORTH_TEN_RUNS = 1.1

# Heats that decide whether something is faster, where that is clear.
_CLEAR = 2


class Search:
    """What was tried is read from the study, so it goes on where it stopped. What gains is a trial of it at once (a
    screening), and another one takes its place when the gate has judged it."""

    def __init__(self, log: StudyLog, executor: Executor, gate: GateRuns, candidates: Candidates) -> None:
        self._log = log
        self._executor = executor
        self._gate = gate
        self._candidates = candidates

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        return self._candidates.stack

    @property
    def end_s(self) -> float:
        """What the end of the study takes: heats of the baseline and its patched copy, and the gate; 0 once it was."""
        if self._log.study.result is not None:
            return 0.0
        heats_s = fewest_heats(self._log, self._executor) * self._executor.estimate_s(afresh=True)
        return heats_s + self._gate.estimate_s(self.stack) + 5.0

    def run(self) -> None:
        """Rounds, until nothing plausible is untried or the budget does not suffice for another one."""
        self._make_rounds()
        if self._is_worth_more_time() and self._log.extend():
            self._make_rounds()
        for trial in self._candidates.rejected():
            self._log.add(trial)

    def use_the_rest(self) -> None:
        """What is left of the budget times what was not tried, and the user is told of it."""
        self._tell_gains_in_vain()
        while self._time_more():
            pass
        self._tell_gains_in_vain()
        self._tell_untried()

    def _tell_untried(self) -> None:
        """Each lever once, whatever its settings."""
        untried = dict.fromkeys(name for one in self._candidates.open() for name in one.names)
        unshown = dict.fromkeys(name for one in self._candidates.unshown() for name in one.names)
        again = [name for name in unshown if name not in untried]
        told = [f"{', '.join(untried)} could be tried"] if untried else []
        told += [f"{', '.join(again)} could be tried again, by more processes"] if again else []
        if told:
            self._log.warn(f"The budget was over before {', and '.join(told)}; raise --budget to try more.")

    # What to do

    def _make_rounds(self) -> None:
        while self._prove() or self._screen() or self._prove(late=True) or self._combine() or self._time_more():
            pass

    def _screen(self) -> bool:
        """Compare the next groups of what was not tried, where the gate and the end of the study fit into the budget as
        well. False where none do."""
        keep_s = self.end_s + max([0.0, *map(self._proof_s, self._waiting())])

        def affords(group: Sequence[Candidate]) -> bool:
            heats_s = _CLEAR * self._heat_s(group)
            return self._log.budget.affords(heats_s, max(map(self._gate_s, group)), keep_s=keep_s)

        return self._time_groups(affords, keep_s=self.end_s)

    def _combine(self) -> bool:
        """Compare, once, what helped nothing alone as one. False where it was, or the budget does not suffice."""
        one = self._candidates.beside_each_other()
        if one is None or self._candidates.open() or not self._affordable([one], self.end_s):
            return False
        self._time([[one]], keep_s=self.end_s)
        return True

    def _time_more(self) -> bool:
        """Times alone, where what they may call for does not fit into the budget any more. False where nothing does."""
        keep_s = self.end_s if self.stack else 0.0

        def affords(group: Sequence[Candidate]) -> bool:
            return self._log.budget.affords(self._heat_s(group), keep_s=keep_s)

        again = [one for one in self._stacks(self._candidates.unshown(), late=True) if affords([one])]
        # What seemed to gain so much comes before what was never tried: three processes show an interval, and what more
        # time would bring.
        seems_much = any(one.log_gain >= math.log(SEEMS_MUCH) for one in again)
        if not seems_much and self._time_groups(affords, keep_s=keep_s):
            return True
        if again:
            self._time([[one] for one in again[: self._executor.nodes]], keep_s=keep_s)
        return bool(again)

    def _time_groups(self, affords: Callable[[Sequence[Candidate]], bool], *, keep_s: float) -> bool:
        """One round; of each group as many as the budget affords side by side."""
        found = False
        groups = iter(self._candidates.groups([one for one in self._candidates.open() if affords([one])]))
        while at_once := list(islice(groups, self._executor.nodes)):
            sizes = [next((n for n in range(len(group), 0, -1) if affords(group[:n])), 0) for group in at_once]
            afforded = [group[:size] for group, size in zip(at_once, sizes, strict=True) if size]
            if afforded:
                self._time(afforded, keep_s=keep_s)
                found = True
        return found

    def _prove(self, *, late: bool = False) -> bool:
        """Compare or judge the stack that brings most for its time, of those that the budget affords; False where there
        is none. `late`: nothing else is left to be tried."""
        self._drop_excluded()
        shown = self._candidates.unjudged()
        stacks = list(self._stacks(shown, late=late))
        if late:
            stacks += self._stacks(self._candidates.unshown(), late=True)
        # Where there is no time for a stack, there may be for one lever that needs no more heats.
        compared = filter(self._is_compared, compatible(shown))
        alone = [stack for one in compared for stack in self._stacks([one], late=late)]
        # A gain was afforded before its heats: they may have taken longer.
        keep_s = self.end_s if late else 0.0
        affordable = self._affordable(stacks, keep_s) or self._affordable(alone, keep_s)
        if affordable:
            # Halves of a stack in their order: what clashes with a better lever comes after it.
            first = {one.other_numbers: one for one in reversed(affordable)}
            best = max(first.values(), key=lambda one: one.log_gain / self._proof_s(one))
            if self._is_compared(best):
                self._judge(best)
            else:
                self._time([[best]], keep_s=keep_s)
        return bool(affordable)

    def _affordable(self, stacks: Sequence[Candidate], keep_s: float) -> list[Candidate]:
        affords = self._log.budget.affords
        return [one for one in stacks if affords(self._heats_s(one), self._gate_s(one), keep_s=keep_s)]

    def _stacks(self, found: Sequence[Candidate], *, late: bool) -> Iterator[Candidate]:
        """What can be compared and judged as one. Levers with other numbers are judged apart from the others, which the
        gate holds to more."""
        yield from self._parts(compatible(one for one in found if not one.other_numbers))
        for stack in self._parts(compatible(one for one in found if one.other_numbers)):
            least = _BEFORE_ALL if not late else 1.0 if stack.shown else _WORTH_TEN_RUNS
            if stack.log_gain >= math.log(least):
                yield stack

    def _parts(self, members: Sequence[Candidate]) -> Iterator[Candidate]:
        """All of them as one; where that was refused, its halves, and theirs."""
        if len(members) == 1:
            yield members[0]
        elif members and not self._candidates.is_refused(stacked(members)):
            yield stacked(members)
        elif members:
            middle = (len(members) + 1) // 2
            yield from self._parts(members[:middle])
            yield from self._parts(members[middle:])

    def _waiting(self) -> list[Candidate]:
        """What gained much, and waits for its gate until all others are tried."""
        return [
            one
            for one in self._candidates.unjudged()
            if one.other_numbers and one.log_gain >= math.log(_WORTH_TEN_RUNS)
        ]

    def _is_compared(self, one: Candidate) -> bool:
        """It was shown to gain on top of what is accepted now."""
        return one.trial is not None and bool(one.trial.runs) and one.trial.on_top_of == self.stack

    def _heats_s(self, one: Candidate) -> float:
        return 0.0 if self._is_compared(one) else _CLEAR * self._executor.estimate_s(switched=one.switched)

    def _gate_s(self, one: Candidate) -> float:
        return self._gate.estimate_s((*self.stack, *one.specs))

    def _proof_s(self, one: Candidate) -> float:
        return self._executor.estimate_s() + self._heats_s(one) + self._gate_s(one)

    def _is_worth_more_time(self) -> bool:
        """What is left could make a step much shorter: by what was measured; by bounds if nothing was found."""
        step_s = self._candidates.profile().median_step_s()
        measured = [*self._candidates.unjudged(), stacked(compatible(self._candidates.unshown()))]
        saves = [1 - math.exp(-one.log_gain) for one in measured]
        bounds = [] if self.stack else [one.bound_s / step_s for one in self._candidates.open()]
        return max([*saves, *bounds]) >= _WORTH_MORE

    # Doing it

    def _time(self, groups: Sequence[Sequence[Candidate]], *, keep_s: float) -> None:
        """Compare within each group, and the groups at the same time where there are nodes for them."""
        self._log.doing(f"trying {', '.join(one.title for group in groups for one in group)}")
        comparisons = [self._comparison(group, keep_s) for group in groups]
        compare_all(comparisons, self._executor)
        for group, comparison in zip(groups, comparisons, strict=True):
            if len(group) > 1 and all(effect.failure for effect in comparison.effects):
                # One of them may have taken the others down with it.
                for one in group:
                    self._time([[one]], keep_s=keep_s)
            else:
                self._add(group, comparison.effects)

    def _comparison(self, group: Sequence[Candidate], keep_s: float) -> Comparison:
        switched = group[0].switched
        return Comparison(
            effects=[Effect(Arm(levers=one.specs)) for one in group],
            design=Design(stack=self.stack, switched=switched),
            pooled=self._log.pooled(group[0].scope),
            rule=Rule(planned=self._planned(group)),
            time_left=lambda: self._log.budget.affords(self._executor.estimate_s(switched=switched), keep_s=keep_s),
        )

    def _add(self, group: Sequence[Candidate], effects: Sequence[Effect]) -> None:
        """A trial of each."""
        for one, effect in zip(group, effects, strict=True):
            late = self._why_not_shorter(effect)
            gained = effect.gained and late is None
            kind = "screening" if gained else "lever"
            trial = self._log.trial(effect, levers=one.specs, on_top_of=self.stack, kind=kind, scope=one.scope)
            trial = replace(
                trial,
                why=reasons.GAINED if gained else reasons.why_not_judged(effect, late),
                runs=(effect.run,) if gained and effect.run is not None else (),
                one_time_s=effect.one_time_s if effect.gained else None,
                break_even_step=effect.break_even_step if effect.gained else None,
            )
            self._log.add(trial)

    def _planned(self, group: Sequence[Candidate]) -> int:
        """Heats at most. Said before the first, as looks are counted. As few as show an interval where more would leave
        others untried, as on a busy machine: what seems to gain is timed again."""
        seemed_to_gain = group[0].log_gain > 0.0 and not group[0].shown
        if not seemed_to_gain:
            fewest = max(FEWEST_SHOWN, fewest_for_a_gain(self._log.pooled(group[0].scope)))
            return PLANNED if self._leaves_time(group) else fewest
        left_s = self._log.budget.left_s - self.end_s - self._gate_s(group[0])
        return max(_PLANNED_LAST, min(_MOST_LAST, int(left_s / self._executor.estimate_s())))

    def _leaves_time(self, group: Sequence[Candidate]) -> bool:
        """All heats of the group can be made, and those that decide clear cases among what is tried after it."""
        tried_now = {one.key for one in group}
        others = [one for one in self._candidates.open() if one.key not in tried_now]
        if not others:
            return True
        later_s = _CLEAR * math.fsum(map(self._heat_s, self._candidates.groups(others)))
        return self._log.budget.affords(PLANNED * self._heat_s(group) + later_s, keep_s=self.end_s)

    def _heat_s(self, group: Sequence[Candidate]) -> float:
        """One heat that compares the group."""
        return self._executor.estimate_s(len(group) + 1, switched=group[0].switched)

    def _why_not_shorter(self, effect: Effect) -> str | None:
        """Why a training as long as the user's takes no less time, though a step does; None if it may."""
        if never_shorter(effect.pairs, epoch_steps=facts(self._log.study).epoch_steps()):
            return "a training takes no less time, starts of epochs included"
        return too_late(effect.break_even_step, self._log.study.total_steps)

    def _judge(self, one: Candidate) -> None:
        """Hold a gain to the gate."""
        if not self._log.budget.affords(self._gate_s(one), keep_s=self.end_s):
            self._log.extend()
        self._log.doing(f"checking that {one.title} leaves training unharmed")
        assert one.trial is not None, "what is judged was compared"
        ruling = self._gate.judge((*self.stack, *one.specs))
        accepted = ruling.verdict is Verdict.UNHARMED
        judged = replace(one.trial, kind="lever", verdict=ruling.verdict, accepted=accepted, why=ruling.why)
        self._log.add(judged)

    def _drop_excluded(self) -> None:
        """What gained, and is excluded by what was accepted since."""
        taken = [str(spec["name"]) for spec in self.stack]
        for one in self._candidates.shown():
            other = excludes(one, taken)
            if other is not None and one.trial is not None:
                self._log.add(replace(one.trial, kind="lever", runs=(), why=reasons.excluded(one.names, other)))

    def _tell_gains_in_vain(self) -> None:
        """What gained and found no time for its gate, with the budget that it takes."""
        budget = self._log.budget
        for one in self._candidates.unjudged():
            if one.trial is not None and one.trial.why == reasons.GAINED:
                needs_s = budget.total_s - budget.left_s + self._gate_s(one) + self.end_s
                why = (
                    f"{one.title} gained {factor(math.exp(one.log_gain))}, and the budget was over before training "
                    f"under it could be compared: that takes --budget {math.ceil(needs_s / 60)}m or more."
                )
                self._log.warn(why)
                self._log.add(replace(one.trial, why=why))
