"""Which levers, on top of which: stacked greedily by their bounds, known pairs together, then each left out once."""

import math
from collections.abc import Sequence

from hotlap import levers
from hotlap.gate import Ruling
from hotlap.levers import Numerics, Scope
from hotlap.record import LeverSpec, Phase, Run, Trial, Verdict, of_arm
from hotlap.statistics import Progress
from hotlap.tune.candidates import WORTH_TEN_RUNS, Candidate, Candidates, Promise, key
from hotlap.tune.comparison import PLANNED, Contender, compare
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court, Stack, numerics_of
from hotlap.tune.one_time import break_even_step, too_late
from hotlap.tune.timing import Arm, Heat, Timing, scope_of
from hotlap.tune.told import no_gain, stays_or_goes, title, titles
from hotlap.tune.waiting import Waiting
from hotlap.units import duration, factor, percent

# As input-bound in the vendors' rules: from here on a training is highly so (XProf).
_MUCH = 0.20

# A study goes on, where the budget is ours to choose, for what could take this part off a step: less is hardly shown on
# a machine on which the usual budget was not enough.
_WORTH_MORE = 0.10

# Processes at most for what is tried last, to show what was too small for the usual number, where there is time.
_PLANNED_LAST, _MOST_LAST = 8, 16

# A gain of other numbers (bf16) from which on the gate's ten runs come before all other trials: few of those bring as
# much, and on a long step there may be no time for both.
_BEFORE_ALL = 1.25

# Items made sooner than this are rows in memory already; from any file they come later (benchmarks/packed.py).
_DEAR_S = 200e-6


class Trials:
    """The search. What was tried is read from the study, so it goes on where it stopped."""

    def __init__(self, desk: Desk, timing: Timing, court: Court, candidates: Candidates) -> None:
        self._desk = desk
        self._timing = timing
        self._court = court
        self._candidates = candidates
        self._kept_s = 0.0  # for a trial that is to come
        self._waiting = Waiting()
        """What gained, and whose gate comes when the others are done."""

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        return self._candidates.stack

    @property
    def begun(self) -> bool:
        """At least one lever was tried, whatever came of it."""
        return any(trial.kind == "lever" and trial.scope != "none" for trial in self._desk.study.trials)

    @property
    def worth_trying(self) -> bool:
        """A lever is left that promises something."""
        return bool(self._candidates.open())

    @property
    def reserve_s(self) -> float:
        """Kept for the end: three heats of the script as written and its patched copy; and the gate. And for what is to
        be tried together."""
        return 3 * self._timing.estimate_s(2) + self._court.estimate_s(self.stack) + 5.0 + self._kept_s

    def stack_greedily(self) -> None:
        """Try what could save most first; take the best of what pays and does no harm; look again; then pairs."""
        self._try_all()
        dear = self._too_dear()
        if self._must_go_on(dear) and self._desk.extend():
            self._try_all()
            dear = self._too_dear()
        untried = [one for one in dear if one.candidate not in self._waiting]
        if untried:
            self._desk.warn(f"The budget was over before {titles(untried)} could be tried; raise --budget to try more.")
        for one in dear:
            if one.candidate in self._waiting:
                why = self._gained_in_vain(one)
                self._desk.warn(why)
                self._note(self._waiting.trial(one, why=why, pooled=self._desk.pooled))
        for trial in self._candidates.rejected():
            self._note(trial)

    def _try_all(self) -> None:
        while group := self._next_group():
            self._try(group)

    def _too_dear(self) -> Sequence[Promise]:
        """What would be worth a trial still."""
        bundle = self._candidates.bundle()
        return [*self._candidates.open(), *([bundle] if bundle is not None else [])]

    def _must_go_on(self, dear: Sequence[Promise]) -> bool:
        """What was too dear could make a step much shorter: by what was measured; by bounds if nothing was found."""
        step_s = self._candidates.profile().median_step_s()
        worth = self._last(self._candidates.open()) if self.stack else dear
        return any(one.bound_s >= _WORTH_MORE * step_s for one in worth)

    def leave_each_out(self) -> None:
        """Does each accepted lever still earn its place? (One that was tried last, alone, was tried on top of all.)"""
        done = {key(trial.levers) for trial in self._desk.study.trials if trial.kind == "leave-one-out"}
        last = next((t.levers for t in reversed(self._desk.study.trials) if t.kind == "lever" and t.accepted), ())
        for spec in self.stack:
            if key((spec,)) in done or (spec,) == last:
                continue
            if self._desk.left_s < 2 * self._timing.estimate_s(2) + self.reserve_s:
                self._desk.warn("The budget was over before each accepted lever could be left out once.")
                return
            self._leave_out(spec)

    def say_what_is_left(self) -> None:
        """Where making items is still much of the step, and no lever keeps them: what else there is."""
        profile = self._candidates.profile()
        share, wait_s = profile.share(Phase.INPUT), profile.mean_phase_s(Phase.INPUT)
        dear = [one for one in profile.loaders if one.trained_on and one.num_items and (one.item_s or 0.0) >= _DEAR_S]
        keeps = {"cached-dataset", "cached-prefix", "device-resident"} & {str(spec["name"]) for spec in self.stack}
        if not dear or keeps or share is None or wait_s is None or share < _MUCH:
            return
        self._desk.warn(
            f"Each step still waits {duration(wait_s)} ({percent(share)} of it) for its batch; making one item of "
            f"{dear[0].dataset} takes {duration(dear[0].item_s or 0.0)}. What is always the same in them (reading, "
            "decoding) can be done once for all runs: `hotlap data pack --estimate FILE.py:DATASET`, for the data set "
            "without its random transforms, measures on some of its items what that would give."
        )

    def _gained_in_vain(self, one: Promise) -> str:
        needs_s = self._desk.options.budget_s - self._desk.left_s + self._takes_s([one]) + self.reserve_s
        return (
            f"{title(one.candidate)} gained {factor(self._waiting.speed(one.candidate))}, and the budget was over "
            f"before training under it could be compared: that takes --budget {math.ceil(needs_s / 60)}m or more."
        )

    def _next_group(self) -> Sequence[Candidate]:
        """Of what the budget still affords, the group that promises most for the time that its heats take."""
        self._kept_s = 0.0
        open_ = self._candidates.open()
        last = [one for one in self._last(open_) if self._affords([one])]
        if last and self._is_kept_for(last[0]):
            self._kept_s = self._takes_s([last[0]])
        at_once = [one for one in open_ if one.candidate not in self._waiting and self._affords([one])]
        if last and not any(len(one.candidate) == 1 for one in at_once):
            self._kept_s = 0.0
            return [last[0].candidate]
        groups = self._candidates.groups(at_once or self._for_times_only(open_))
        if not groups:
            return []
        group = max(groups, key=lambda group: group[0].bound_s / self._heats_s(group))
        # What does not fit side by side fits alone.
        while len(group) > 1 and not self._affords(group):
            group = group[:-1]
        return [one.candidate for one in group]

    def _last(self, open_: Sequence[Promise]) -> list[Promise]:
        """What comes when all else is done, in this order: what gained much and waits for its gate; what could not be
        shown; what gained less."""
        step_s = self._candidates.profile().median_step_s()
        waiting = self._waiting.promises(open_, step_s)
        much = [one for one in waiting if self._waiting.speed(one.candidate) >= WORTH_TEN_RUNS]
        bundle = self._candidates.bundle()
        return [*much, *([bundle] if bundle is not None else []), *waiting[len(much) :]]

    def _is_kept_for(self, one: Promise) -> bool:
        """Its time is kept while others are tried: what gained, or takes few runs. (Ten would be most of it.)"""
        if one.candidate in self._waiting:
            return self._waiting.speed(one.candidate) >= WORTH_TEN_RUNS
        return numerics_of(_specs(one.candidate)) is not Numerics.STATISTICAL

    def _for_times_only(self, open_: Sequence[Promise]) -> list[Promise]:
        """What has too many runs to make for the gate, and whose heats fit: the user is told what it would bring."""
        return [
            one
            for one in open_
            if one.candidate not in self._waiting
            and numerics_of(_specs(one.candidate)) is Numerics.STATISTICAL
            and self._desk.left_s - self.reserve_s >= self._heats_s([one])
        ][:1]

    def _affords(self, group: Sequence[Promise]) -> bool:
        """Its heats still leave what the end of the study takes, and so would the gate's runs for one of it, in the
        longer budget where that is ours to choose."""
        left_s = self._desk.left_s - self.reserve_s
        return left_s >= self._heats_s(group) and left_s + self._desk.extension_s >= self._takes_s(group)

    def _takes_s(self, group: Sequence[Promise]) -> float:
        """Its heats, and the gate's runs for one of it."""
        return self._heats_s(group) + max(self._gate_s(one.candidate) for one in group)

    def _gate_s(self, candidate: Candidate) -> float:
        """The gate's runs for it, on top of what is accepted."""
        return self._court.estimate_s((*self.stack, *_specs(candidate)))

    def _heats_s(self, group: Sequence[Promise]) -> float:
        """What deciding whether it is faster will take, where that is clear."""
        if len(group) == 1 and self._waiting.timed(group[0].candidate, self.stack) is not None:
            return 0.0
        number = len(group) + 1
        switched = group[0].scope is Scope.STEP
        return 2 * self._heat_s(number, switched=switched)

    def _heat_s(self, number: int = 2, *, switched: bool) -> float:
        """One heat of so many contenders, the base among them."""
        return self._timing.estimate_s(1, arms=number) if switched else self._timing.estimate_s(number)

    def _try(self, group: Sequence[Candidate]) -> None:
        timed = self._waiting.timed(group[0], self.stack)
        if timed is not None:
            self._take_one([(group[0], timed)])
            return
        again = " again, by more processes" if self._candidates.is_tried(group[0]) else ""
        self._desk.doing(f"trying {', '.join(title(candidate) for candidate in group)}{again}")
        contenders = [Contender(name=title(candidate)) for candidate in group]
        self._compare(dict(zip((c.name for c in contenders), group, strict=True)), contenders)
        if len(group) > 1 and all(contender.failure for contender in contenders):
            # One of them may have taken the others down with it.
            for candidate in group:
                self._try([candidate])
            return
        pairs = list(zip(group, contenders, strict=True))
        gains = [(candidate, contender) for candidate, contender in pairs if contender.progress is Progress.GAIN]
        # What brings most for its time, the gate's included.
        gains.sort(key=lambda pair: -pair[1].mean / (2 * self._timing.estimate_s(2) + self._gate_s(pair[0])))
        for candidate, contender in pairs:
            # What is not decided behind a gain is compared again, with it or without.
            if contender.progress is not Progress.GAIN and not (gains and contender.open):
                self._close(candidate, contender, None)
        self._take_one(gains)

    def _take_one(self, gains: Sequence[tuple[Candidate, Contender]]) -> None:
        """The first that does no harm; what else gained is compared again, on top of it."""
        for candidate, contender in gains:
            if self._comes_too_late(contender):
                self._close(candidate, contender, None)
                continue
            if self._can_wait(candidate, contender):
                self._waiting.put_off(candidate, self.stack, contender)
                continue
            if self._desk.left_s < self._gate_s(candidate) + self.reserve_s:
                self._desk.extend()
            if self._is_for_times_only(candidate):
                self._waiting.put_off(candidate, self.stack, contender)
                continue
            ruling = self._judge(candidate)
            self._close(candidate, contender, ruling)
            if ruling.verdict is Verdict.UNHARMED:
                return

    def _compare(self, group: dict[str, Candidate], contenders: Sequence[Contender]) -> None:
        step = _scope(next(iter(group.values()))) is Scope.STEP
        stack = self.stack

        def heat(still: Sequence[Contender]) -> Heat:
            sets = [_specs(group[contender.name]) for contender in still]
            if step:
                limit_s = self._desk.limit_s(self._timing.estimate_s(1, arms=len(sets) + 1))
                return self._timing.switched(stack, [(), *sets], limit_s=limit_s)
            limit_s = self._desk.limit_s(self._timing.estimate_s(len(sets) + 1))
            return self._timing.duet(stack, [Arm(), *(Arm(levers=specs) for specs in sets)], limit_s=limit_s)

        compare(
            contenders,
            heat,
            pooled=self._desk.pooled("step" if step else "process"),
            planned=self._planned(next(iter(group.values()))),
            time_left=lambda: self._desk.left_s - self._heat_s(switched=step) > self.reserve_s,
        )

    def _can_wait(self, candidate: Candidate, contender: Contender) -> bool:
        """Its gate has ten runs to make, which would take the time for all others; and what it brings is no more than
        they may."""
        others = (one.candidate for one in self._candidates.open() if self._affords([one]))
        return (
            contender.mean < math.log(_BEFORE_ALL)
            and numerics_of(_specs(candidate)) is Numerics.STATISTICAL
            and numerics_of(self.stack) is not Numerics.STATISTICAL
            and candidate not in self._waiting
            and any(_specs(other) != _specs(candidate) and other not in self._waiting for other in others)
        )

    def _is_for_times_only(self, candidate: Candidate) -> bool:
        """Other numbers whose gate's runs would not end within the budget."""
        statistical = numerics_of(_specs(candidate)) is Numerics.STATISTICAL
        return statistical and self._desk.left_s < self._gate_s(candidate)

    def _planned(self, first: Candidate) -> int:
        """Processes at most. Said before the first, as looks are counted."""
        if len(first) == 1 and not self._candidates.is_tried(first):
            return PLANNED
        number = int((self._desk.left_s - self.reserve_s - self._gate_s(first)) / self._timing.estimate_s(2))
        return max(_PLANNED_LAST, min(_MOST_LAST, number))

    def _comes_too_late(self, contender: Contender) -> str | None:
        """Why what it costs once is not worth it in a training as long as the user's; None if it is."""
        step = break_even_step(contender.one_time_s, contender.base, contender.run)
        return too_late(step, self._desk.study.horizon)

    def _judge(self, candidate: Candidate) -> Ruling:
        self._desk.doing(f"checking that {title(candidate)} leaves training unharmed")
        return self._court.judge((*self.stack, *_specs(candidate)))

    def _close(self, candidate: Candidate, contender: Contender, ruling: Ruling | None) -> None:
        """Write the trial into the study."""
        scope = "step" if _scope(candidate) is Scope.STEP else "process"
        gained = contender.progress is Progress.GAIN
        self._note(
            Trial(
                levers=_specs(candidate),
                on_top_of=self.stack,
                scope=scope,
                speedup=contender.speedup(self._desk.pooled(scope)),
                verdict=ruling.verdict if ruling else Verdict.UNDECIDED,
                accepted=ruling is not None and ruling.verdict is Verdict.UNHARMED,
                why=ruling.why if ruling else self._why_not(contender),
                log_ratios=tuple(contender.log_ratios),
                runs=_kept(candidate, contender) if ruling else (),
                one_time_s=contender.one_time_s if gained else None,
                break_even_step=(
                    break_even_step(contender.one_time_s, contender.base, contender.run) if gained else None
                ),
                failure=contender.failure.kind if contender.failure else None,
            )
        )

    def _why_not(self, contender: Contender) -> str:
        late = self._comes_too_late(contender) if contender.progress is Progress.GAIN else None
        if late is not None:
            return f"Faster, but {late}; so training was not compared."
        return no_gain(contender)

    def _note(self, trial: Trial) -> None:
        known = (self._desk.study.baseline[0], *self._court.known)
        self._desk.change("trial", trials=(*self._desk.study.trials, trial), baseline=known)

    def _leave_out(self, spec: LeverSpec) -> None:
        others = tuple(other for other in self.stack if other != spec)
        lever = levers.from_spec(spec)
        self._desk.doing(f"leaving {lever.title()} out once")
        contender = Contender(name=lever.title())
        step = scope_of((spec,)) is Scope.STEP

        def heat(_: Sequence[Contender]) -> Heat:
            limit_s = self._desk.limit_s(self._timing.estimate_s(2))
            if step:
                return self._timing.switched(others, [(), (spec,)], limit_s=limit_s)
            return self._timing.duet(others, [Arm(), Arm(levers=(spec,))], limit_s=limit_s)

        scope = "step" if step else "process"
        compare(
            [contender],
            heat,
            pooled=self._desk.pooled(scope),
            line=1.0,
            planned=3,
            patient=True,
            time_left=lambda: self._desk.left_s > self.reserve_s,
        )
        speedup = contender.speedup(self._desk.pooled(scope))
        # What was accepted with others because alone it could not be shown: it stays unless it seems to cost.
        bundled = self._candidates.is_bundled(spec)
        stays = speedup is not None and (speedup.mid if bundled else speedup.low) > 1.0
        gain = (
            "nothing could be measured" if speedup is None else f"it brings {factor(speedup.mid)} on top of the others"
        )
        self._note(
            Trial(
                levers=(spec,),
                on_top_of=others,
                kind="leave-one-out",
                scope=scope,
                speedup=speedup,
                accepted=stays,
                why=f"Left out once: {gain}; {stays_or_goes(stays, bundled)}.",
                log_ratios=tuple(contender.log_ratios),
                failure=contender.failure.kind if contender.failure else None,
            )
        )


def _specs(candidate: Candidate) -> Stack:
    return tuple(lever.spec() for lever in candidate)


def _scope(candidate: Candidate) -> Scope:
    return scope_of(_specs(candidate))


def _kept(candidate: Candidate, contender: Contender) -> tuple[Run, ...]:
    """The timed run under the levers; of a run with several arms only their own steps."""
    if contender.run is None:
        return ()
    if len(contender.run.arms) == 1:
        return (contender.run,)
    own = key(_specs(candidate))
    arm = next(k for k, levers_ in enumerate(contender.run.arms) if key(tuple(levers_)) == own)
    return (of_arm(contender.run, arm),)
