"""Which levers, on top of which: stacked greedily by their bounds, then each left out once."""

from collections.abc import Sequence
from dataclasses import replace

from hotlap import levers, statistics
from hotlap.gate import Ruling
from hotlap.levers import Lever, Scope
from hotlap.record import LeverSpec, Machine, Run, Trial, Verdict, of_arm
from hotlap.statistics import Progress
from hotlap.tune.comparison import LINE, Contender, compare
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court, Stack
from hotlap.tune.part import facts
from hotlap.tune.timing import Arm, Heat, Timing, scope_of
from hotlap.units import factor, percent

# A lever whose bound is below this part of the step cannot reach the line.
_LEAST_SHARE = 1 - 1 / LINE

# Contenders that are switched within one process at most: the blocks of each get rarer with their number.
_MOST_TOGETHER = 5


class Trials:
    """The search. What was tried is read from the study, so it goes on where it stopped."""

    def __init__(self, desk: Desk, timing: Timing, court: Court, machine: Machine) -> None:
        self._desk = desk
        self._timing = timing
        self._court = court
        self._machine = machine

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        accepted: list[LeverSpec] = []
        for trial in self._desk.study.trials:
            if trial.kind == "lever" and trial.accepted:
                accepted += trial.levers
            elif trial.kind == "leave-one-out" and not trial.accepted:
                accepted = [spec for spec in accepted if spec not in trial.levers]
        return tuple(accepted)

    @property
    def reserve_s(self) -> float:
        """Kept for the end: three heats of the script as written, under the levers, and patched; and the gate."""
        return 3 * self._timing.estimate_s(3) + self._court.estimate_s(self.stack) + 5.0

    def stack_greedily(self) -> None:
        """Try what could save most first; take the best of what pays and does no harm; look again."""
        while True:
            group = self._next_group()
            if not group:
                self._note_rejected()
                return
            arms = len(group) + 1 if group[0].scope is Scope.STEP else 1
            processes = 1 if group[0].scope is Scope.STEP else 2
            needed = 2 * self._timing.estimate_s(processes, arms=arms) + self._court.estimate_s(
                (*self.stack, group[0].spec())
            )
            if self._desk.left_s < needed + self.reserve_s:
                names = ", ".join(lever.title() for lever in group)
                self._desk.warn(f"The budget was over before {names} could be tried; raise --budget to try more.")
                return
            self._try(group)

    def leave_each_out(self) -> None:
        """Does each accepted lever still earn its place? (The last one was tried on top of all others.)"""
        done = {_key(trial.levers) for trial in self._desk.study.trials if trial.kind == "leave-one-out"}
        for spec in self.stack[:-1]:
            if _key((spec,)) in done:
                continue
            if self._desk.left_s < 2 * self._timing.estimate_s(2) + self.reserve_s:
                self._desk.warn("The budget was over before each accepted lever could be left out once.")
                return
            self._leave_out(spec)

    def _note_rejected(self) -> None:
        """Levers that were not worth a trial: why."""
        profile = self._profile()
        known = {str(trial.levers[0]["name"]) for trial in self._desk.study.trials if trial.levers}
        for kind in levers.ALL:
            if kind.name in known or not self._wanted(kind):
                continue
            lever = next(iter(kind.candidates(profile, self._machine)), None) or kind()
            reason = lever.rejects(profile, self._machine) or (
                f"It could save {percent(self._bound_s(lever, profile) / profile.median_step_s())} of a step at most."
            )
            trial = Trial(levers=({"name": kind.name},), on_top_of=self.stack, scope="none", why=f"Not tried. {reason}")
            self._desk.change("trial", trials=(*self._desk.study.trials, trial))

    def _bound_s(self, lever: Lever, profile: Run) -> float:
        return lever.saves_at_most_s(profile, self._desk.study.ceilings)

    # One trial

    def _next_group(self) -> list[Lever]:
        """The most promising lever, with the others that can be compared in the same processes."""
        profile = self._profile()
        step_s = profile.median_step_s()
        tried = {_key(trial.levers) for trial in self._desk.study.trials if trial.kind == "lever"}
        taken = {spec["name"] for spec in self.stack}
        open_ = []
        for kind in levers.ALL:
            if kind.name in taken or not self._wanted(kind):
                continue
            for lever in kind.candidates(profile, self._machine):
                bound_s = self._bound_s(lever, profile)
                if _key((lever.spec(),)) in tried or bound_s < _LEAST_SHARE * step_s:
                    continue
                if lever.rejects(profile, self._machine) is None:
                    open_.append((bound_s, lever))
        open_.sort(key=lambda pair: -pair[0])
        if not open_ or open_[0][1].scope is not Scope.STEP:
            return [lever for _, lever in open_[:1]]
        return [lever for _, lever in open_ if lever.scope is Scope.STEP][:_MOST_TOGETHER]

    def _wanted(self, kind: type[Lever]) -> bool:
        return self._desk.options.levers is None or kind.name in self._desk.options.levers

    def _profile(self) -> Run:
        """Where the time goes under the levers accepted so far; the facts are those of the script as written."""
        accepted = [trial for trial in self._desk.study.trials if trial.kind == "lever" and trial.accepted]
        timed = accepted[-1].runs[-1] if accepted and accepted[-1].runs else self._desk.study.baseline[0]
        return replace(facts(self._desk.study), step_s=timed.step_s, phase_s=timed.phase_s)

    def _try(self, group: Sequence[Lever]) -> None:
        titles = ", ".join(lever.title() for lever in group)
        self._desk.doing(f"trying {titles}")
        contenders = [Contender(name=lever.title()) for lever in group]
        self._compare(dict(zip((c.name for c in contenders), group, strict=True)), contenders)
        if len(group) > 1 and all(contender.failure for contender in contenders):
            # One of them may have taken the others down with it.
            for lever in group:
                self._try([lever])
            return
        pairs = list(zip(group, contenders, strict=True))
        gains = [(lever, contender) for lever, contender in pairs if contender.progress is Progress.GAIN]
        gains.sort(key=lambda pair: -sum(pair[1].log_ratios) / len(pair[1].log_ratios))
        for lever, contender in pairs:
            if contender.progress is not Progress.GAIN:
                self._close(lever, contender, None)
        for lever, contender in gains:
            ruling = self._judge(lever)
            self._close(lever, contender, ruling)
            if ruling.verdict is Verdict.UNHARMED:
                return  # what else gained is compared again, on top of this

    def _compare(self, group: dict[str, Lever], contenders: Sequence[Contender]) -> None:
        step = next(iter(group.values())).scope is Scope.STEP
        stack = self.stack

        def heat(still: Sequence[Contender]) -> Heat:
            specs = [(group[contender.name].spec(),) for contender in still]
            if step:
                limit_s = self._desk.limit_s(self._timing.estimate_s(1, arms=len(specs) + 1))
                return self._timing.switched(stack, [(), *specs], limit_s=limit_s)
            limit_s = self._desk.limit_s(self._timing.estimate_s(len(specs) + 1))
            return self._timing.duet(stack, [Arm(), *(Arm(levers=spec) for spec in specs)], limit_s=limit_s)

        compare(
            contenders,
            heat,
            pooled=self._desk.pooled("step" if step else "process"),
            time_left=lambda: self._desk.left_s > self.reserve_s,
        )

    def _judge(self, lever: Lever) -> Ruling:
        self._desk.doing(f"checking that {lever.title()} leaves training unharmed")
        return self._court.judge((*self.stack, lever.spec()))

    def _close(self, lever: Lever, contender: Contender, ruling: Ruling | None) -> None:
        """Write the trial into the study."""
        scope = "step" if lever.scope is Scope.STEP else "process"
        speedup = contender.speedup(self._desk.pooled(scope))
        trial = Trial(
            levers=(lever.spec(),),
            on_top_of=self.stack,
            scope=scope,
            speedup=speedup,
            verdict=ruling.verdict if ruling else Verdict.UNDECIDED,
            accepted=ruling is not None and ruling.verdict is Verdict.UNHARMED,
            why=ruling.why if ruling else _no_gain(contender),
            log_ratios=tuple(contender.log_ratios),
            runs=_kept(lever, contender) if ruling else (),
        )
        if trial.accepted and contender.run is not None and contender.base is not None:
            trial = _with_one_time_cost(trial, contender.base, contender.run)
        self._desk.change("trial", trials=(*self._desk.study.trials, trial), baseline=self._baseline())

    def _baseline(self) -> tuple[Run, ...]:
        return (self._desk.study.baseline[0], *self._court.known)

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
            time_left=lambda: self._desk.left_s > self.reserve_s,
        )
        speedup = contender.speedup(self._desk.pooled(scope))
        stays = speedup is not None and speedup.low > 1.0
        gain = (
            "nothing could be measured" if speedup is None else f"it brings {factor(speedup.mid)} on top of the others"
        )
        trial = Trial(
            levers=(spec,),
            on_top_of=others,
            kind="leave-one-out",
            scope=scope,
            speedup=speedup,
            accepted=stays,
            why=f"Left out once: {gain}; {'it stays' if stays else 'that cannot be told from none, so it goes'}.",
            log_ratios=tuple(contender.log_ratios),
        )
        self._desk.change("trial", trials=(*self._desk.study.trials, trial))


def _key(stack: Stack) -> tuple[tuple[tuple[str, object], ...], ...]:
    return tuple(tuple(sorted(spec.items())) for spec in stack)


def _kept(lever: Lever, contender: Contender) -> tuple[Run, ...]:
    """The timed run under the lever; of a run with several arms only the lever's own steps."""
    if contender.run is None:
        return ()
    if len(contender.run.arms) == 1:
        return (contender.run,)
    spec = (lever.spec(),)
    arm = next(k for k, levers_ in enumerate(contender.run.arms) if _key(tuple(levers_)) == _key(spec))
    return (of_arm(contender.run, arm),)


def _no_gain(contender: Contender) -> str:
    if contender.failure is not None:
        return f"It could not be tried: {contender.failure}."
    number = len(contender.log_ratios)
    processes = "1 process" if number == 1 else f"{number} processes"
    if contender.progress is Progress.NO_GAIN:
        return f"No gain of {factor(LINE)} in {processes}, so training was not compared."
    if contender.progress is Progress.GO_ON:
        return f"The time was over after {processes}, before a gain could be shown."
    return f"A gain above {factor(LINE)} could not be shown in {processes}; training was not compared."


def _with_one_time_cost(trial: Trial, base: Run, run: Run) -> Trial:
    """What the lever's longer warm-up took beyond as many steps without it; a warm-up of equal length costs nothing."""
    longer = len(run.first_steps_s) - len(base.first_steps_s)
    if longer <= 0 or not base.step_s or not run.step_s:
        return trial
    before_s, after_s = base.median_step_s(), run.median_step_s()
    one_time_s = max(0.0, sum(run.first_steps_s) - sum(base.first_steps_s) - before_s * longer)
    return replace(
        trial, one_time_s=one_time_s, break_even_step=statistics.break_even_step(one_time_s, before_s, after_s)
    )
