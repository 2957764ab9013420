"""Designs -> processes -> log-ratios: the one place that starts what is compared, and knows how long it takes here."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hotlap import levers
from hotlap.errors import UserError
from hotlap.experiment.design import Arm, Design, EditedScript, Sizes, Stack
from hotlap.experiment.failure import Failed, failed
from hotlap.experiment.runs import Job, Nodes, Runs, in_the_way, run_trial_groups
from hotlap.experiment.table import log_ratio_of_runs, log_ratios_of_arms
from hotlap.record import Failure, LeverSpec, Plan, Run, Turn
from hotlap.record.order import rounds

# A run that ended early still counts when it has this many steps of each arm.
_ENOUGH_STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialGroup:
    """What one trial group brought: for each arm but the first, the log-ratio to the first, or why there is none."""

    log_ratios: tuple[float | None, ...]
    failures: tuple[Failed | None, ...]
    runs: tuple[Run, ...]
    """One per process, in the order of the arms."""
    base_failure: Failed | None = None
    """Why the base gave no times: then there are no ratios, and that is no fault of the others."""


@dataclass(frozen=True, slots=True)
class Group:
    """Plans of one node, and how they are run."""

    plans: Sequence[Plan]
    turn: int
    """Steps, where they take turns."""
    limit_s: float

    def same(self, other: "Group") -> bool:
        """But for the order of turns."""
        ours, theirs = ([replace(plan, order_seed=0) for plan in one.plans] for one in (self, other))
        return ours == theirs


Begun = tuple[Group, Job]

Likely = Callable[["Executor", Sequence[Group]], list[Group]]


class Pace:
    """How much longer things take here and now than expected; learnt from each trial group."""

    def __init__(self) -> None:
        self.factor = 1.0

    def note(self, *, expected_s: float, took_s: float) -> None:
        """A trial group is over. The newest counts half: other people's work on a machine comes and goes."""
        if expected_s > 0:
            self.factor = min(20.0, max(0.5, (self.factor + took_s / expected_s) / 2))


class Executor:
    """Runs trial groups of the right size.

    `common`: what all plans have, the command foremost. `script`: what levers make of it. `last_seed`: of the order of
    turns, in what was compared before. `limit`: seconds that a trial group should take -> after which it is ended.
    `warn`: takes a sentence for the user. `now`: a clock in seconds (a fake one in tests).
    """

    def __init__(
        self,
        runs: Runs,
        common: Plan,
        sizes: Sizes,
        *,
        script: EditedScript,
        last_seed: int = 0,
        limit: Callable[[float], float] = lambda estimate_s: 3 * estimate_s + 60.0,
        warn: Callable[[str], None] = lambda sentence: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs = runs
        self._common = common
        self._script = script
        self._limit = limit
        self._warn = warn
        self._now = now
        self.pace = Pace()
        self._order_seed = last_seed
        self.sizes = sizes
        """What trial groups are planned by."""
        self.likely: Likely = lambda executor, asked: []
        """What comes after what is asked for, the next first: it is begun on nodes that would idle."""
        self.timed: list[tuple[Design, TrialGroup]] = []
        """What was compared, until somebody clears it."""
        self._ahead: list[Begun] = []
        """Begun though nobody asked yet, and their jobs."""
        self.foreseen = False
        """Some of what was asked for last had been begun before: its time says nothing."""

    @property
    def nodes(self) -> int:
        """Trial groups that may run at the same time."""
        return self._runs.nodes if isinstance(self._runs, Nodes) else 1

    def estimate_s(self, num_arms: int = 2, *, switched: bool = False, afresh: bool = False) -> float:
        """What a trial group will take, as far as earlier ones tell."""
        return self.pace.factor * self.sizes.trial_group_s(num_arms, switched=switched, afresh=afresh)

    def unwritten(self, design: Design, arm: Arm) -> Failed | None:
        """Why the levers of an arm cannot be handed over as an edit: such a lever is of no use to anybody."""
        try:
            self._script.texts((*design.stack, *arm.levers))
        except UserError as error:
            return Failed(Failure.NOT_INSTALLED, str(error).rstrip("."))
        return None

    def trial_group(self, design: Design) -> TrialGroup:
        """Run it, and compare each arm with the first.

        Raises:
            UserError: an arm is `unwritten`.
        """
        return self.trial_groups([design])[0]

    def trial_groups(self, designs: Sequence[Design]) -> list[TrialGroup]:
        """One of each, on as many nodes.

        Raises:
            UserError: as `trial_group`.
        """
        groups = []
        for design in designs:
            self._order_seed += 1
            groups.append(self.group(design, order_seed=self._order_seed))
        begun = self._now()
        found = self.together(groups)
        self._learn([run for runs in found for run in runs])
        if not self.foreseen:
            self.pace.note(expected_s=max(map(self._expected_s, designs)), took_s=self._now() - begun)
        trial_groups = [
            _of_arms(runs[0], design) if design.switched else _of_processes(runs)
            for runs, design in zip(found, designs, strict=True)
        ]
        if self.nodes > 1:
            self.timed += zip(designs, trial_groups, strict=True)
        return trial_groups

    def group(self, design: Design, *, order_seed: int) -> Group:
        """Its plans.

        Raises:
            UserError: as `trial_group`.
        """
        plans = design.plans(self._common, self.sizes, self._script, order_seed=order_seed)
        limit_s = self._limit(self.pace.factor * self._expected_s(design))
        return Group(plans, turn=self.sizes.block, limit_s=limit_s)

    def num_ahead(self, design: Design) -> int:
        """Trial groups of such a design that were begun ahead."""
        if not self._ahead:
            return 0
        wanted = self.group(design, order_seed=0)
        return sum(group.same(wanted) for group, _ in self._ahead)

    def together(self, groups: Sequence[Group]) -> list[list[Run]]:
        """Groups of processes that take turns, where memory holds them and they were not in each
        other's way: a port, a locked file or a device that each wants for itself; else they run one after the other,
        and none of them is always first. Several groups: each on a node of its own."""
        brought = self._brought(groups)
        reasons = (in_the_way(runs, several=self.sizes.num_ranks > 1) for runs in brought if self.sizes.together > 1)
        if reason := next(filter(None, reasons), None):
            self.sizes = replace(self.sizes, together=1)
            self._warn(
                f"Two of these trainings cannot run at the same time ({reason}), so they are compared one after the "
                "other, which takes longer to tell small gains from noise."
            )
            self._drop(self._ahead)
            return self.together(groups)
        return brought

    def _brought(self, groups: Sequence[Group]) -> list[list[Run]]:
        if not isinstance(self._runs, Nodes) or self._runs.nodes == 1:
            found = [run_trial_groups(self._runs, [self._trial_group(one)], limit_s=one.limit_s)[0] for one in groups]
        else:
            known = [self._begun_ahead(one) for one in groups]
            self.foreseen = any(known)
            begun = [before or self._begun(one) for before, one in zip(known, groups, strict=True)]
            self._begin_ahead(groups, [job for _, job in begun])
            found = self._runs.finish([job for _, job in begun])
            groups = [group for group, _ in begun]
        return [_restored(runs, self._order(group.plans)) for runs, group in zip(found, groups, strict=True)]

    def _trial_group(self, group: Group) -> list[Plan]:
        """As they are run."""
        plans = group.plans
        if 1 < len(plans) <= self.sizes.together:
            return [replace(plan, turn=Turn(steps=group.turn, ready="", go="")) for plan in plans]
        return [plans[place] for place in self._order(plans)]

    def _order(self, plans: Sequence[Plan]) -> Sequence[int]:
        """Of those that run one after the other."""
        return next(rounds(len(plans), plans[0].order_seed)) if len(plans) > self.sizes.together else range(len(plans))

    def _begun(self, group: Group) -> Begun:
        assert isinstance(self._runs, Nodes), "one machine runs what it is asked for"
        return group, self._runs.begin(self._trial_group(group), limit_s=group.limit_s)

    def _begun_ahead(self, group: Group) -> Begun | None:
        found = next((one for one in self._ahead if one[0].same(group)), None)
        if found is not None:
            self._ahead.remove(found)
        return found

    def _begin_ahead(self, asked: Sequence[Group], jobs: Sequence[Job]) -> None:
        """What will likely be asked for next goes on, or begins where nodes are free; the rest is dropped."""
        likely = self.likely(self, asked)
        known = [self._begun_ahead(group) for group in likely]
        self._drop(self._ahead)
        self._ahead = list(filter(None, known))
        free = self.nodes - sum(not job.is_over() for job in (*jobs, *(job for _, job in self._ahead)))
        if free < 0:
            self._drop([one for one in self._ahead if not one[1].is_over()][free:])
        new = [group for group, begun in zip(likely, known, strict=True) if begun is None]
        for group in new[: max(0, free)]:
            self._order_seed += 1
            plans = [replace(plan, order_seed=self._order_seed) for plan in group.plans]
            self._ahead.append(self._begun(replace(group, plans=plans)))

    def _drop(self, ahead: Sequence[Begun]) -> None:
        for one in list(ahead):
            assert isinstance(self._runs, Nodes), "one machine begins nothing ahead"
            self._runs.drop(one[1])
            self._ahead.remove(one)

    def whole(self, design: Design, *, limit_s: float) -> Iterator[list[Run]]:
        """Whole trainings for real, one after the other: one of each arm, as often as asked for. `limit_s`: of one.

        Raises:
            UserError: an arm is `unwritten`.
        """
        self._order_seed += 1
        plans = design.plans(self._common, self.sizes, self._script, order_seed=self._order_seed)
        for order in rounds(len(plans), self._order_seed):
            trial_group = [replace(plans[k], only_levers=True) for k in order]
            (runs,) = run_trial_groups(self._runs, [trial_group], limit_s=limit_s * len(plans))
            yield _restored(runs, order)

    def _learn(self, runs: Sequence[Run]) -> None:
        """Starts first: the pace is what else takes longer than expected."""
        starts_s = [run.setup_s for run in runs if run.setup_s is not None]
        if starts_s:
            self.sizes = self.sizes.after(starts_s, forked=any(run.forked for run in runs))

    def _expected_s(self, design: Design) -> float:
        return self.sizes.trial_group_s(len(design.arms), switched=design.switched, afresh=design.afresh)


def _restored(runs: Sequence[Run], order: Sequence[int]) -> list[Run]:
    """In the order of the arms."""
    return [run for _, run in sorted(zip(order, runs, strict=True), key=lambda placed: placed[0])]


def _of_arms(run: Run, design: Design) -> TrialGroup:
    """One process, in which arms took turns by blocks."""
    failure = _failure(run, len(design.arms))
    ratios = {} if failure else log_ratios_of_arms(run)
    return TrialGroup(
        log_ratios=tuple(ratios.get(k) for k in range(1, len(design.arms))),
        failures=tuple(_not_at_work(run, arm.levers) or failure for arm in design.arms[1:]),
        runs=(run,),
    )


def _of_processes(runs: Sequence[Run]) -> TrialGroup:
    """One process for each arm."""
    base_failure, *failures = (_failure(run, 1) or _not_at_work(run, (*run.always, *run.arms[0])) for run in runs)
    ratios = [
        None if base_failure or failure else log_ratio_of_runs(runs[0], run)
        for run, failure in zip(runs[1:], failures, strict=True)
    ]
    return TrialGroup(log_ratios=tuple(ratios), failures=tuple(failures), runs=tuple(runs), base_failure=base_failure)


def _failure(run: Run, num_arms: int) -> Failed | None:
    """Why a run gives no times; None if it does."""
    if len(run.step_s) < _ENOUGH_STEPS * num_arms:
        return failed(run) or Failed(Failure.TOO_FEW_STEPS, f"only {len(run.step_s)} steps could be timed")
    return failed(run)


def _not_at_work(run: Run, stack: Stack) -> Failed | None:
    """Why the levers of one arm were not at work, if so."""
    text = next((text for spec in stack for text in not_installed(run, spec)), None)
    return None if text is None else Failed(Failure.NOT_INSTALLED, text.rstrip("."))


def not_installed(run: Run, spec: LeverSpec) -> list[str]:
    """What the run says of a lever that it could not put to work."""
    title = levers.from_spec(spec).title()
    return [text for text in run.not_installed if text.startswith(f"{title}:")]
