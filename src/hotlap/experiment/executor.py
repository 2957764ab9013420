"""Designs -> processes -> log-ratios: the one place that starts what is compared, and knows how long it takes here."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hotlap import levers
from hotlap.errors import UserError
from hotlap.experiment.design import Arm, Design, EditedScript, Sizes, Stack
from hotlap.experiment.failure import Failed, failed
from hotlap.experiment.runs import Nodes, Runs, in_the_way, run_trial_groups
from hotlap.experiment.table import log_ratio_of_runs, log_ratios_of_arms
from hotlap.record import Failure, LeverSpec, Plan, Run, Turn
from hotlap.record.order import rounds

# A run that ended early still counts when it has this many steps of each arm.
_ENOUGH_STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialGroup:
    """What one trial group brought."""

    outcomes: tuple[float | Failed, ...]
    """Of each arm but the first its log-ratio to the first, or why there is none."""
    runs: tuple[Run, ...]
    """One per process, in the order of the arms."""
    base_failed: bool = False
    """That there are no ratios is no fault of the others."""


@dataclass(frozen=True, slots=True)
class Group:
    """Plans of one node, and how they are run."""

    plans: Sequence[Plan]
    turn: int
    """Steps, where they take turns."""
    limit_s: float


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
            self._script.patched((*design.stack, *arm.levers))
        except UserError as error:
            return Failed(Failure.NOT_INSTALLED, str(error).rstrip("."))
        return None

    def trial_groups(self, *designs: Design) -> list[TrialGroup]:
        """One of each, on as many nodes, each of whose arms is compared with the first.

        Raises:
            UserError: an arm is `unwritten`.
        """
        limits_s = [self._limit(self.pace.factor * self._expected_s(design)) for design in designs]
        groups = [Group(self._plans(one), self.sizes.block, s) for one, s in zip(designs, limits_s, strict=True)]
        begun = self._now()
        found = self.together(groups)
        starts_s = [run.setup_s for runs in found for run in runs if run.setup_s is not None]
        if starts_s:  # first: the pace is what else takes longer than expected
            self.sizes = self.sizes.after(starts_s, forked=any(run.forked for runs in found for run in runs))
        self.pace.note(expected_s=max(map(self._expected_s, designs)), took_s=self._now() - begun)
        return [
            _of_arms(runs[0], design) if design.switched else _of_processes(runs)
            for runs, design in zip(found, designs, strict=True)
        ]

    def _plans(self, design: Design) -> list[Plan]:
        """In an order of turns that was not drawn before."""
        self._order_seed += 1
        return design.plans(self._common, self.sizes, self._script, order_seed=self._order_seed)

    def together(self, groups: Sequence[Group]) -> list[list[Run]]:
        """Groups of processes that take turns, where memory holds them and they were not in each
        other's way: a port, a locked file or a device that each wants for itself; else they run one after the other,
        and none of them is always first. Several groups: each on a node of its own."""
        plans, limits_s = [self._trial_group(one) for one in groups], [one.limit_s for one in groups]
        found = run_trial_groups(self._runs, plans, limits_s=limits_s)
        reasons = (in_the_way(runs, several=self.sizes.num_ranks > 1) for runs in found if self.sizes.together > 1)
        if reason := next(filter(None, reasons), None):
            self.sizes = replace(self.sizes, together=1)
            self._warn(
                f"Two of these trainings cannot run at the same time ({reason}), so they are compared one after the "
                "other, which takes longer to tell small gains from noise."
            )
            return self.together(groups)
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

    def whole(self, design: Design, *, limit_s: float) -> Iterator[list[Run]]:
        """Whole trainings for real, one after the other: one of each arm, as often as asked for. `limit_s`: of one.

        Raises:
            UserError: an arm is `unwritten`.
        """
        plans = self._plans(design)
        for order in rounds(len(plans), self._order_seed):
            trial_group = [replace(plans[k], only_levers=True) for k in order]
            (runs,) = run_trial_groups(self._runs, [trial_group], limits_s=[limit_s * len(plans)])
            yield _restored(runs, order)

    def _expected_s(self, design: Design) -> float:
        return self.sizes.trial_group_s(len(design.arms), switched=design.switched, afresh=design.afresh)


def _restored(runs: Sequence[Run], order: Sequence[int]) -> list[Run]:
    """In the order of the arms."""
    return [run for _, run in sorted(zip(order, runs, strict=True), key=lambda placed: placed[0])]


def _of_arms(run: Run, design: Design) -> TrialGroup:
    """One process, in which arms took turns by blocks."""
    failure = _failure(run, len(design.arms))
    ratios: dict[int, float] = {} if failure else log_ratios_of_arms(run)
    failures = (_not_at_work(run, arm.levers) or failure for arm in design.arms[1:])
    outcomes = (failure or _told(ratios.get(k)) for k, failure in enumerate(failures, 1))
    return TrialGroup(outcomes=tuple(outcomes), runs=(run,))


def _of_processes(runs: Sequence[Run]) -> TrialGroup:
    """One process for each arm."""
    of_base, *failures = (_failure(run, 1) or _not_at_work(run, (*run.always, *run.arms[0])) for run in runs)
    without = of_base and Failed(of_base.kind, f"the script without it failed: {of_base.why}")
    outcomes = (
        failure or without or _told(log_ratio_of_runs(runs[0], run))
        for run, failure in zip(runs[1:], failures, strict=True)
    )
    return TrialGroup(outcomes=tuple(outcomes), runs=tuple(runs), base_failed=of_base is not None)


def _told(ratio: float | None) -> float | Failed:
    return Failed(Failure.TOO_FEW_STEPS, "too few steps for a comparison") if ratio is None else ratio


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
