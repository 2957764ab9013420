"""Runs whose losses, samples and updates are compared: is training unharmed under these levers?"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hotlap import levers
from hotlap.errors import UserError
from hotlap.experiment import Executor, Group, Pace, Sizes, Stack
from hotlap.experiment.total import EndsS, epoch_end_s
from hotlap.gate import Evidence, Ruling, judge, saw_epoch_end
from hotlap.record import BEYOND_EPOCH, EPOCH_STRETCH, Plan, Run, Status, Verdict
from hotlap.search.study_log import StudyLog

Start = tuple[int, int]
"""What a run of the baseline begins with: what is added to its seed, and which perturbation."""

# What rounding alone does is shown by so many runs in which every parameter is perturbed after every update.
_NUMBER_OF_PERTURBED = 3
# And by these what bfloat16 does to a gradient: that of the step behind the first one.
_ROUNDED, _ROUNDED_STEPS = (-1, -2, -3), 2

# An equivalence test needs a spread: so many seeds with and without the levers. (With 5 the gate caught 87% of planted
# harms, with 3 only 78%: tests/unit/gate.)
_NUMBER_OF_SEEDS = 5

# Two processes that both compute slow each other down by more than two (their threads wait for one another), so they
# share only the start and then take turns of this many steps.
_TURN_STEPS = 50

# Part of the budget that one run may take beyond its steps, to see an epoch's end: a study makes three runs at least,
# and what is wrong with a data set often shows in its second epoch only.
_EPOCH_SHARE = 0.06

_NO_OTHER_SEEDS = "Other seeds may tell, and there was no time for them: raise --budget."

CONTRACTS = (levers.Numerics.EXACT, levers.Numerics.ROUNDING, levers.Numerics.STATISTICAL)
"""What may be held to the baseline, the strictest first."""


def numerics_of(stack: Stack) -> levers.Numerics:
    """The weakest promise among the levers: a chain is as exact as its least exact part."""
    return max((levers.from_spec(spec).numerics for spec in stack), key=CONTRACTS.index, default=levers.Numerics.EXACT)


class GateRuns:
    """Makes the runs that the gate needs, keeps those of the baseline in the study, and asks the gate."""

    def __init__(self, log: StudyLog, executor: Executor) -> None:
        self._log = log
        self._executor = executor
        self._pace = Pace()
        self.found: list[Run] = []
        """Runs of the last comparison, under what was judged."""
        self._passed: tuple[Stack, Ruling, list[Run]] | None = None
        self._timed = log.study.baseline[:1]
        self.known = [run for run in log.study.baseline if run.batch_digest is not None]
        """Runs of the baseline, with evidence."""

    @property
    def _sizes(self) -> Sizes:
        return self._executor.sizes

    def look(self) -> None:
        """One run of the baseline, with evidence: it also tells what levers must know of its loaders."""
        if self._baseline():
            return
        plan = self.plan()
        (run,) = self._failed_again([plan], self.made([plan]))
        if not plan.whole_epoch:
            note = (
                f"An epoch of {self._sizes.epoch_steps:,} steps takes too long for the gate: its runs end after "
                f"{plan.steps}, and do not see an epoch's end."
            )
            run = replace(run, notes=(*run.notes, note))
        self._keep([run])

    def judge(
        self,
        stack: Stack,
        *,
        replaced: Mapping[str, str] | None = None,
        numerics: levers.Numerics | None = None,
        again: bool = True,
    ) -> Ruling:
        """The script under `stack` against the baseline; of a stack that has passed, which is to be handed over as it
        is, what it passed with.

        `replaced`: texts to run in place of those that the levers come to. `numerics`: what they are held to; None: to
        what the levers promise. `again`: harm that a statistical test found is looked for a second time, and what few
        seeds do not settle is held to twice as many.
        """
        if self._passed is not None and self._passed[0] == stack:
            _, ruling, self.found = self._passed
            return ruling
        numerics = numerics or numerics_of(stack)
        self.look()
        try:
            texts = dict(self._log.script.patched(stack).texts if replaced is None else replaced)
        except UserError as error:
            return Ruling(verdict=Verdict.UNDECIDED, why=str(error))
        ruling = self._judge(stack, texts, numerics, again=again)
        if replaced is None and ruling.verdict is Verdict.UNHARMED:
            self._passed = stack, ruling, self.found
        return ruling

    def _judge(self, stack: Stack, replaced: dict[str, str], numerics: levers.Numerics, *, again: bool) -> Ruling:
        first = self._compare(stack, replaced, numerics, _seeds(numerics))
        unsettled = first.verdict is Verdict.UNDECIDED
        looks_again = levers.Numerics.STATISTICAL if unsettled else levers.Numerics.ROUNDING
        if not (again and first.by_chance) or CONTRACTS.index(numerics) < CONTRACTS.index(looks_again):
            return first
        seeds = range(_seeds(numerics).stop, 2 * _seeds(numerics).stop)
        has_time = self._log.budget.affords(self.estimate_s(stack, numerics, seeds))
        if not has_time and (unsettled or not self._log.extend()):
            return replace(first, verdict=Verdict.UNDECIDED, why=f"{first.why} {_NO_OTHER_SEEDS}")
        found, second = self.found, self._compare(stack, replaced, numerics, seeds)
        if numerics is levers.Numerics.STATISTICAL:
            # All of them in one test, to which the first look leaves a part of its chance of an error.
            self.found = [*found, *self.found]
            second = self._ask(numerics, range(seeds.stop))
        if unsettled:
            return second
        # Harm that a statistical test found is believed where it is still seen beside other seeds.
        if second.verdict is Verdict.HARMED:
            return replace(first, why=f"{first.why} With other seeds: {second.why}")
        return replace(second, why=f"{second.why} (With the first seeds it was otherwise: {first.why})")

    def harm_by(self, numerics: levers.Numerics) -> Ruling | None:
        """What the runs made so far show to be harm by that contract; None where that is not certain."""
        ruling = self._ask(numerics, _seeds(numerics))
        return ruling if ruling.verdict is Verdict.HARMED and not ruling.by_chance else None

    def epoch_ends_s(self) -> EndsS:
        """What an epoch's end takes the baseline, and what was judged last; 0 where these runs saw none."""
        ends_s = [
            [epoch_end_s(run, epoch_steps=run.epoch_steps()) for run in runs] for runs in (self._baseline(), self.found)
        ]
        base, found = (next(filter(None, one), 0.0) for one in ends_s)
        return base, found

    def _compare(
        self, stack: Stack, replaced: dict[str, str], numerics: levers.Numerics, seeds: Sequence[int]
    ) -> Ruling:
        """`seeds`: what is added to the script's own seed in the runs with the lever."""
        plans = [replace(self.plan(seed), always=stack, replaced=replaced) for seed in seeds]
        exact = numerics is levers.Numerics.EXACT
        missing = [] if exact else self._missing(numerics, seeds)
        if missing and self._executor.nodes == 1:
            # They are kept before others begin: a study that is interrupted has them. Several nodes make all at once.
            self._make(missing)
            missing = []
        self.found = self._make(missing, plans)
        ruling = self._ask(numerics, seeds)
        if not exact or ruling.verdict is Verdict.UNHARMED:
            return ruling
        # A run that equals the baseline bit for bit has repeated it, lever or not. Where it does not, a second
        # baseline run shows whether the script repeats itself at all.
        self._make(self._missing(numerics, seeds))
        base = self._baseline()
        if len(base) > 1 and base[0].loss != base[1].loss:
            self._make(self._missing(levers.Numerics.ROUNDING, seeds))
        return self._ask(numerics, seeds)

    def _make(self, starts: Sequence[Start], plans: Sequence[Plan] = ()) -> list[Run]:
        """Runs of the baseline, which are kept, and of these plans, which are the answer."""
        of_baseline = [self.plan(seed, perturbation) for seed, perturbation in starts]
        found = self.made([*of_baseline, *plans])
        if starts:
            self._keep(self._failed_again(of_baseline, found[: len(starts)]))
        return found[len(starts) :]

    def _failed_again(self, plans: Sequence[Plan], runs: Sequence[Run]) -> list[Run]:
        """A run of the baseline that failed is made once more: beside it no lever could be judged."""
        found = list(runs)
        failures = [k for k, run in enumerate(runs) if run.status in (Status.CRASHED, Status.KILLED)]
        for k, run in zip(failures, self.made([plans[k] for k in failures]), strict=True):
            found[k] = run
        return found

    def _keep(self, runs: Sequence[Run]) -> None:
        self.known += runs
        self._log.change("evidence", baseline=(*self._timed, *self.known))

    def _missing(self, numerics: levers.Numerics, seeds: Sequence[int]) -> list[Start]:
        """How the runs of the baseline begin that a contract needs, and that were not made yet."""
        home = _home(numerics, seeds)
        wanted = Counter({(home, 0): 1 if home else 2})
        if numerics is not levers.Numerics.EXACT:
            wanted.update((home, perturbation) for perturbation in range(1, _NUMBER_OF_PERTURBED + 1))
        if numerics is levers.Numerics.STATISTICAL:
            wanted |= Counter([*((home, perturbation) for perturbation in _ROUNDED), *((seed, 0) for seed in seeds)])
        return list((wanted - Counter((run.reseed, run.perturbation) for run in self.known)).elements())

    def _ask(self, numerics: levers.Numerics, seeds: Sequence[int]) -> Ruling:
        home, any_seed = _home(numerics, seeds), numerics is not levers.Numerics.STATISTICAL
        others = [run for run in self.known if not run.perturbation and (any_seed or run.reseed in seeds)]
        evidence = Evidence(
            base=tuple(self._baseline(home)),
            lever=tuple(self.found[:1]),
            perturbed=tuple(run for run in self.known if run.perturbation > 0 and run.reseed == home),
            rounded=tuple(run for run in self.known if run.perturbation < 0),
            base_seeds=(*self._baseline(home)[:1], *(run for run in others if run.reseed != home)),
            lever_seeds=tuple(self.found),
        )
        return judge(str(numerics), evidence)

    def estimate_s(
        self, stack: Stack, numerics: levers.Numerics | None = None, seeds: Sequence[int] | None = None
    ) -> float:
        """About what one look of `judge` will take. `seeds`: as `_compare` has them; None: of the first look."""
        if self._passed is not None and self._passed[0] == stack:
            return 0.0
        numerics = numerics or numerics_of(stack)
        seeds = seeds or _seeds(numerics)
        missing = [] if numerics is levers.Numerics.EXACT else self._missing(numerics, seeds)
        return self.takes_s([self.plan(*start) for start in (*((seed, 0) for seed in seeds), *missing)])

    def look_s(self) -> float:
        """What `look` will take; 0 once it was made."""
        return 0.0 if self._baseline() else self._pace.factor * self._sizes.evidence_s()

    def takes_s(self, plans: Sequence[Plan]) -> float:
        """About what such runs take, as far as earlier ones tell."""
        groups = self._groups(plans)
        return self._pace.factor * sum(self._sizes.evidence_s(*map(self._num_steps, one.plans)) for one in groups)

    def _num_steps(self, plan: Plan) -> int:
        """Of such a run; how far it is to an epoch's end is known once one was made."""
        known = [len(run.step_index) for run in self.known if not run.perturbation]
        return max([plan.steps, *known]) if plan.whole_epoch else plan.steps

    def _baseline(self, reseed: int = 0) -> list[Run]:
        return [run for run in self.known if not run.perturbation and run.reseed == reseed]

    def made(self, plans: Sequence[Plan]) -> list[Run]:
        """Runs in pairs, of which each shares a node, and its cores."""
        nodes, groups = self._executor.nodes, self._groups(plans)
        found: list[Run] = []
        for start in range(0, len(groups), nodes):
            begun = self._log.now()
            brought = self._executor.together(groups[start : start + nodes])
            expected_s = max(self._sizes.evidence_s(*(len(run.step_index) for run in runs)) for runs in brought)
            self._pace.note(expected_s=expected_s, took_s=self._log.now() - begun)
            found += [run for runs in brought for run in runs]
        return found

    def _groups(self, plans: Sequence[Plan]) -> list[Group]:
        """Each of one node: pairs where there are more runs than nodes."""
        size = 2 if self._sizes.together >= 2 and len(plans) > self._executor.nodes else 1
        pairs = [plans[start : start + size] for start in range(0, len(plans), size)]
        limits_s = [sum(4 * self._sizes.evidence_s(self._num_steps(plan)) + 10 for plan in pair) for pair in pairs]
        return [Group(pair, turn=_TURN_STEPS, limit_s=s) for pair, s in zip(pairs, limits_s, strict=True)]

    def plan(self, reseed: int = 0, perturbation: int = 0) -> Plan:
        """Of a run that begins like that."""
        plan = replace(
            self._log.options.plan,
            steps=self._sizes.evidence_steps,
            warmup=0,
            evidence=True,
            reseed=reseed,
            perturbation=perturbation,
        )
        if perturbation < 0:
            return replace(plan, steps=_ROUNDED_STEPS)
        base = self._baseline()
        if not base:
            # How long an epoch is may be known only where one ends.
            patience_s = self._sizes.evidence_s() - self._sizes.setup_s + _EPOCH_SHARE * self._log.options.budget_s
            return replace(plan, whole_epoch=self._is_end_near(), whole_epoch_s=patience_s)
        if not saw_epoch_end(base):
            # Other seeds would not show one either.
            made = 0 if reseed or perturbation else len(base[0].step_index)
            return replace(plan, steps=max(plan.steps, made))
        # What rounding does is mostly seen without an epoch's end, so one perturbed run goes on for it: it tells what
        # rounding makes of the losses behind it, and of what the script prints there.
        return replace(plan, whole_epoch=perturbation <= 1)

    def _is_end_near(self) -> bool:
        """A run that goes on for an epoch's end may get there, and soon. (What digests take is not known yet: its
        patience ends one in which they take long.)"""
        steps, epoch = self._sizes.evidence_steps, self._sizes.epoch_steps
        if epoch is None:
            return True
        beyond_s = (epoch + BEYOND_EPOCH - steps) * self._sizes.step_s
        return epoch + BEYOND_EPOCH <= EPOCH_STRETCH * steps and beyond_s <= _EPOCH_SHARE * self._log.options.budget_s


def _seeds(numerics: levers.Numerics) -> range:
    """Of the first look."""
    return range(_NUMBER_OF_SEEDS if numerics is levers.Numerics.STATISTICAL else 1)


def _home(numerics: levers.Numerics, seeds: Sequence[int]) -> int:
    """The seed of the runs that show what rounding does."""
    return 0 if numerics is levers.Numerics.STATISTICAL else seeds[0]
