"""Which levers, on top of which: rounds that time what is plausible, stack what gains, and prove the stack as one.

A round compares what promises most, in as few designs as there are ways to compare (switched within a process, or in
processes that take turns). What gained is stacked; the stack is compared once with what is accepted so far, and held
to the gate once; where either refuses it, it is halved until what is to blame stands alone. What only seemed to gain is
stacked as well once nothing else is left, and must be shown together; and so, once, is all that is switched and helped
nothing alone, for some levers help only together. In the end each accepted lever of which it is in doubt whether it
earns its place is left out once, and what never was shown to gain goes unless that shows it. Where there is no time for
the gate's runs (any more), levers are timed all the same, so that the user knows what more time would bring.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from hotlap.experiment import PLANNED, Arm, Comparison, Design, Effect, Executor, Rule, Stack, compare
from hotlap.experiment.statistics import FEWEST_SHOWN, Progress
from hotlap.experiment.total import Pairs, never_shorter
from hotlap.record import Trial, Verdict, lever_title
from hotlap.search import reasons
from hotlap.search.candidates import MUCH_SHORTER, Candidate, compatible, excludes, stacked
from hotlap.search.confirmation import Confirmation
from hotlap.search.costs import Costs, Group
from hotlap.search.gate_runs import GateRuns
from hotlap.search.study_log import StudyLog

# From such a gain of other numbers (bf16) on the time of the gate's ten runs is kept while others are tried, and they
# are worth it though nothing is shown yet.
_WORTH_TEN_RUNS = 1.1

_MUCH = math.log(MUCH_SHORTER)

# Of each lever that is left out, trial groups until it is clear whether the step is faster without it; by chance it
# seems so as rarely as the truth lies below a 95% interval.
_LEFT_OUT = Rule(least=1.0, planned=FEWEST_SHOWN, false_gain=0.025)
# What was never shown to gain is given time to be shown, and stays by chance as rarely, over all looks.
_NEVER_SHOWN = replace(_LEFT_OUT, planned=PLANNED, false_drop=0.025 / PLANNED, patient=True)


class Search:
    """What was tried is read from the study, so it goes on where it stopped. What gains is a trial of it at once (a
    screening), and another one takes its place when the gate has judged it."""

    def __init__(self, log: StudyLog, executor: Executor, gate: GateRuns) -> None:
        self._log = log
        self._executor = executor
        self._gate = gate
        self._costs = Costs(log, executor, gate)
        self._candidates = self._costs.candidates

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        return self._candidates.stack

    def run(self) -> None:
        """What is accepted, and confirmed: the study's result, where that is anything."""
        if self._log.study.result is None:
            self._make_rounds()
            if self._costs.is_worth_more_time() and self._log.extend():
                self._make_rounds()
            for trial in self._candidates.rejected():
                self._log.add(trial)
            self._leave_each_out()
            if self.stack:
                Confirmation(self._log, self._executor, self._gate, self.stack).run()

    def end(self) -> None:
        """What is left of the budget times what was not tried, in the shortest trial groups where others do not fit any
        more; and what it all comes to is told."""
        planned = self._executor.sizes
        while self._time_more() or self._costs.shorten():
            pass
        # What a longer study takes is told of trial groups as planned.
        self._executor.sizes = replace(self._executor.sizes, steps=planned.steps, warmup=planned.warmup)
        gains_need_s = self._tell_gains_in_vain()
        if self._log.study.result is None:
            result = reasons.without_levers(
                self._log, self._candidates, needs_s=lambda wanted: gains_need_s or self._costs.needs_s(wanted)
            )
            self._log.change("result", result=result)
        told = reasons.not_reached(self._candidates)
        # That nothing was tried is the result itself.
        if told is not None and any(trial.scope != "none" for trial in self._log.study.trials):
            self._log.warn(told)

    # What to do: each of these does one thing, or says that there is none that the budget affords

    def _make_rounds(self) -> None:
        while self._prove() or self._screen() or self._prove(late=True) or self._time_more():
            pass

    def _screen(self) -> bool:
        """One round of what was not tried, where its gate fits as well, that of what gained, and the study's end."""

        def affords(group: Group) -> bool:
            waiting = (one for one in self._stacks(self._candidates.unjudged(), late=True) if one.other_numbers)
            return self._costs.affords(group, keep_s=self._costs.kept_s + math.fsum(map(self._costs.proof_s, waiting)))

        found = False
        for groups in self._open(affords):
            # What is switched shows more in a step that is much shorter already: that is judged first.
            waits = found and max((one.log_gain for one in self._candidates.unjudged()), default=0.0) >= _MUCH
            now = [group for group in groups if not (waits and group[0].switched)]
            if now:
                self._time(now, keep_s=self._costs.kept_s)
                found = True
        return found

    def _time_more(self) -> bool:
        """Times alone, where what they may call for does not fit into the budget any more."""
        keep_s = self._costs.kept_s if self.stack else 0.0

        def affords(group: Group) -> bool:
            # One process says less of each of several than two of the best.
            again_s = self._costs.trial_group_s(group) if len(group) > 1 else 0.0
            return self._costs.affords(group, keep_s=keep_s + again_s, times_only=True)

        again = [one for one in self._stacks(self._candidates.unshown(), late=True) if affords([one])]
        groups = next(self._open(affords), None) or [[one] for one in again[: self._executor.nodes]]
        if groups:
            self._time(groups, keep_s=keep_s)
        return bool(groups)

    def _open(self, affords: Callable[[Group], bool]) -> Iterator[list[Group]]:
        """The groups of a round, as many at once as there are nodes; of each as many as the budget affords by then."""
        groups = iter(self._costs.groups([one for one in self._candidates.open() if affords([one])]))
        while at_once := list(islice(groups, self._executor.nodes)):
            afforded = [next((g[:n] for n in range(len(g), 0, -1) if affords(g[:n])), g[:0]) for g in at_once]
            if any(afforded):
                yield list(filter(None, afforded))

    def _prove(self, *, late: bool = False) -> bool:
        """Compare or judge the stack that brings most for its time. `late`: nothing else is left to be tried."""
        self._drop_excluded()
        shown = self._candidates.unjudged()
        stacks = list(self._stacks(shown, late=late))
        if late:
            stacks += self._stacks(self._candidates.unshown(), late=True)
            if not (stacks or self._candidates.open()):
                stacks = (not self.stack and self._candidates.undecided()) or self._candidates.beside_each_other()
        # Where there is no time for a stack, there may be for one lever that needs no more trial groups.
        compared = filter(self._costs.is_compared, compatible(shown))
        alone = [stack for one in compared for stack in self._stacks([one], late=late)]
        affordable = (list(filter(self._costs.affords_proof, wanted)) for wanted in (stacks, alone))
        # Halves of a stack in their order: what clashes with a better lever comes after it.
        first = {one.other_numbers: one for one in reversed(next(filter(None, affordable), []))}
        best = max(first.values(), key=lambda one: one.log_gain / self._costs.proof_s(one), default=None)
        if best is not None and self._costs.is_compared(best):
            self._judge(best)
        elif best is not None:
            self._time([[best]], keep_s=self._costs.end_s)
        return best is not None

    def _stacks(self, found: Group, *, late: bool) -> Iterator[Candidate]:
        """What can be compared and judged as one. Levers with other numbers are judged apart from the others, which the
        gate holds to more, and behind them."""
        yield from self._parts(compatible(one for one in found if not one.other_numbers))
        for stack in self._parts(compatible(one for one in found if one.other_numbers)):
            if late and (stack.shown or stack.log_gain >= math.log(_WORTH_TEN_RUNS)):
                yield stack

    def _parts(self, members: Group) -> Iterator[Candidate]:
        """All of them as one; where that was refused, its halves, and theirs."""
        if len(members) == 1:
            yield members[0]
        elif members and not self._candidates.is_refused(stacked(members)):
            yield stacked(members)
        elif members:
            middle = (len(members) + 1) // 2
            yield from self._parts(members[:middle])
            yield from self._parts(members[middle:])

    def _leave_each_out(self) -> None:
        """Of those in doubt each once, side by side; the study goes on without those that cost."""
        while groups := self._costs.groups(self._candidates.doubtful()):
            has_time = self._costs.affords(groups[0], keep_s=self._costs.kept_s, times_only=True)
            if not has_time and not self._log.extend(
                self._costs.kept_s + PLANNED * self._costs.trial_group_s(groups[0])
            ):
                self._leave_out_unshown()
                return
            self._leave_out(groups[0])

    def _leave_out_unshown(self) -> None:
        """Where the time is over before training was timed without them: of what gained together the one that seemed to
        bring most alone stays, the others were never shown to bring anything."""
        for one in self._candidates.never_shown():
            if not self._candidates.is_last(one):
                others = tuple(spec for spec in self.stack if spec not in one.specs)
                trial = Trial(levers=one.specs, on_top_of=others, kind="leave-one-out", scope=one.scope)
                self._log.add(replace(trial, why=reasons.NEVER_SHOWN))
        if len(self.stack) > 1:
            self._log.warn(reasons.NOT_LEFT_OUT)

    # Doing it

    def _time(self, groups: Sequence[Group], *, keep_s: float) -> None:
        """Compare within each group, and the groups at the same time where there are nodes for them."""
        self._log.doing(f"trying {', '.join(one.title for group in groups for one in group)}")
        comparisons = [self._comparison(group, keep_s=keep_s) for group in groups]
        compare(self._executor, *comparisons)
        for group, comparison in zip(groups, comparisons, strict=True):
            if len(group) > 1 and all(effect.failure for effect in comparison.effects):
                # One of them may have taken the others down with it.
                for one in group:
                    self._time([[one]], keep_s=keep_s)
            else:
                self._add_all(list(zip(group, comparison.effects, strict=True)), keep_s=keep_s)

    def _comparison(self, group: Group, *, keep_s: float) -> Comparison:
        effects = [self._effect(one) for one in group]

        def time_left() -> bool:
            still = [one for one, effect in zip(group, effects, strict=True) if effect.open]
            gained = [pair for pair in zip(group, effects, strict=True) if pair[1].gained]
            best = max(gained, key=lambda pair: pair[1].mean, default=None)
            proof_s = self._costs.proof_kept_s(best[0]) if best else 0.0
            return self._costs.affords(still or group, keep_s=max(keep_s, proof_s), times_only=True)

        return Comparison(
            effects=effects,
            design=Design(stack=self.stack, switched=group[0].switched),
            rule=Rule(planned=self._costs.planned(group), earlier=len(effects[0].log_ratios)),
            time_left=time_left,
        )

    def _effect(self, one: Candidate) -> Effect:
        """What was undecided goes on with the pairs that it has."""
        scope, earlier = self._costs.scope(one), self._costs.goes_on_from(one)
        ratios = [] if earlier is None else list(earlier.log_ratios)
        return Effect(Arm(levers=one.specs), self._log.pooled(scope, without=earlier), ratios)

    def _add_all(self, compared: Sequence[tuple[Candidate, Effect]], *, keep_s: float) -> None:
        """What a comparison came to. Several that start at the same time slow each other down: what is worth its cost
        only if that is why it takes so long is compared with the base alone, the best first, but not beside what gained
        so and excludes it."""
        doubtful: list[tuple[Candidate, Effect]] = []
        for one, effect in compared:
            costs_in_vain = effect.gained and self._never_shorter(effect.pairs)
            if costs_in_vain and not self._never_shorter(effect.pairs, num_arms=len(compared) + 1):
                doubtful.append((one, effect))
            else:
                self._add(one, effect)
        taken: list[str] = []
        for one, effect in sorted(doubtful, key=lambda found: -found[1].mean):
            if excludes(one, taken) or not self._costs.affords([one], keep_s=keep_s, times_only=True):
                self._add(one, effect)
                continue
            self._time([[one]], keep_s=keep_s)
            if one.key in (other.key for other in self._candidates.shown()):
                taken += one.titles

    def _never_shorter(self, pairs: Pairs, num_arms: int = 2) -> bool:
        """A step may be shorter where a training as long as the user's is not. `num_arms`: of the trial groups."""
        at_once = num_arms if num_arms <= self._executor.sizes.together else 2  # else they start one after the other
        return never_shorter(pairs, self._log.length, at_once=at_once)

    def _add(self, one: Candidate, effect: Effect) -> None:
        """What its comparison came to, as a trial."""
        late = reasons.no_shorter(self._log.study.total_steps) if self._never_shorter(effect.pairs) else None
        gained = effect.gained and late is None
        kind = "screening" if gained else "lever"
        scope = self._costs.scope(one)
        trial = self._log.trial(effect, levers=one.specs, on_top_of=self.stack, kind=kind, scope=scope)
        if earlier := self._costs.goes_on_from(one):
            trial = replace(trial, order_seeds=(*earlier.order_seeds, *trial.order_seeds))
        why = reasons.GAINED if gained else reasons.why_not_judged(effect, late)
        if one.trial is not None and not gained:
            why = reasons.with_earlier(one.trial, why, stack=self.stack)
        runs = (effect.run,) if gained and effect.run is not None else ()
        once_s, step = (effect.one_time_s, effect.break_even_step) if effect.gained else (None, None)
        self._log.add(replace(trial, why=why, runs=runs, one_time_s=once_s, break_even_step=step))

    def _judge(self, one: Candidate) -> None:
        """Hold a gain to the gate."""
        if not self._log.budget.affords(self._costs.gate_s(one), keep_s=self._costs.end_s):
            self._log.extend()
        self._log.doing(f"checking that {one.title} leaves training unharmed")
        ruling = self._gate.judge((*self.stack, *one.specs))
        accepted = ruling.verdict is Verdict.UNHARMED
        self._settle(one, kind="lever", verdict=ruling.verdict, accepted=accepted, why=ruling.why)

    def _settle(self, one: Candidate, **became: Any) -> None:
        """What became of a gain."""
        assert one.trial is not None, "it was compared"
        self._log.add(replace(one.trial, **became))

    def _leave_out(self, group: Group) -> None:
        """Levers that are there from the start of a process stay where others are switched."""
        switched, keep_s = group[0].switched, self._costs.kept_s
        always = tuple(spec for spec in self.stack if switched and not self._candidates.alone(spec).switched)
        taken = tuple(spec for spec in self.stack if spec not in always)
        pooled = self._log.pooled(group[0].scope)
        self._log.doing(f"leaving {', '.join(one.title for one in group)} out once")
        arms = (Arm(levers=tuple(spec for spec in taken if spec not in one.specs)) for one in group)
        without = [Effect(arm, pooled) for arm in arms]
        rule = _LEFT_OUT if all(one.shown for one in group) else _NEVER_SHOWN
        comparison = Comparison(
            effects=without,
            design=Design(arms=(Arm(levers=taken),), stack=always, switched=switched),
            rule=rule,
            time_left=lambda: self._log.budget.affords(0.0, keep_s=keep_s),
        )
        compare(self._executor, comparison)
        stack = self.stack
        for one, effect in sorted(zip(group, without, strict=True), key=lambda found: -found[1].mean):
            brings = replace(effect, log_ratios=[-ratio for ratio in effect.log_ratios])
            others = tuple(spec for spec in stack if spec not in one.specs)
            trial = self._log.trial(brings, levers=one.specs, on_top_of=others, kind="leave-one-out", scope=one.scope)
            # What gained alone goes only if it is shown to cost here. What was accepted with others because alone it
            # could not be shown must be shown now, unless it is all that is left of what gained with it.
            if one.shown:
                stays, goes = not effect.gained, "it costs, so it goes"
            else:
                is_slower_without = rule.progress(effect.log_ratios, pooled) is Progress.NO_GAIN
                stays = is_slower_without or (self._candidates.is_last(one) and effect.mean <= 0.0)
                goes = "that could not be told from nothing, so it goes"
            if stays and self._never_shorter([(other, base) for base, other in effect.pairs]):
                stays, goes = False, f"but {reasons.no_shorter(self._log.study.total_steps)}, so it goes"
            self._log.add(replace(trial, accepted=stays, why=reasons.left_out(trial, "it stays" if stays else goes)))

    # What is told

    def _drop_excluded(self) -> None:
        """What gained, and is excluded by what was accepted since."""
        taken = list(map(lever_title, self.stack))
        for one in self._candidates.shown():
            other = excludes(one, taken)
            if other is not None:
                self._settle(one, kind="lever", runs=(), why=reasons.excluded(one.names, other))

    def _tell_gains_in_vain(self) -> float:
        """What gained and found no time for its gate, with the budget that it takes. (A study that goes on may have
        told of some before.) Returns that budget; 0 where nothing gained in vain."""
        gains = self._candidates.unjudged()
        needs_s = self._costs.needs_s(gains) if gains else 0.0
        waiting = [one for one in gains if one.trial is not None and one.trial.why == reasons.GAINED]
        if waiting:
            self._log.warn(reasons.in_vain(waiting, self._log.study.total_steps, needs_s=needs_s))
        for one in waiting:
            self._settle(one, why=reasons.not_gated([one], self._log.study.total_steps))
        return needs_s
