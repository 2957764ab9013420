"""What is compared, and how long: sets of levers, and sizes of runs -> plans."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotlap import levers, source
from hotlap.errors import UserError
from hotlap.experiment.table import MIN_ROUNDS, mean_step_s
from hotlap.record import BEYOND_EPOCH, EPOCH_STRETCH, LeverSpec, Machine, Plan, Run
from hotlap.record.order import whole_rounds

# Time measured for each arm of each process. Longer does not help: the noise is between processes (docs/measuring.md).
_ARM_S = 1.5
_MIN_ROUNDS, _MAX_ROUNDS = 6, 40

# And made before: caches of processor and allocator fill in the first steps.
_WARM_S = 1.0
_MIN_WARM, _MAX_WARM = 3, 20

# What a run for the gate may take, an epoch's end not counted: that much, or this part of a budget.
_EVIDENCE_S, _EVIDENCE_SHARE = 5.0, 1 / 60
_MIN_EVIDENCE, _MAX_EVIDENCE = 60, 400
# Digests of what a step reads and changes: up to so many times a short step, and about so long for a longer one. (What
# they take here is known after the first such run: `Pace`.)
_DIGESTS, _DIGESTS_S = 2.0, 20e-3

# Part of the free memory that several processes together may take, and how many of them there may be at most.
_MEMORY_SHARE = 0.8
_MOST_TOGETHER = 8
# Of a device's memory, for each process: its context, and what libraries load into it.
_CONTEXT_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How long to measure. Made from the first, timed run of the baseline."""

    step_s: float
    """On average, rare pauses of the machine left out."""
    setup_s: float
    """From the start of a trial's process to its first step."""
    block: int
    steps: int
    """To be timed, for each arm."""
    warmup: int
    evidence_steps: int
    together: int
    """Processes that may be alive at once; of several that train together all count as one."""
    cores: float
    """For each of these processes."""
    afresh_setup_s: float | None = None
    """As `setup_s`, where trials are forks and this one is not (`Plan.afresh`). None: they are not."""
    epoch_steps: int | None = None
    """Steps of an epoch; None where that is not known."""
    num_ranks: int = 1
    """Processes that train together."""

    @classmethod
    def of(cls, run: Run, machine: Machine, *, budget_s: float = 0.0) -> "Sizes":
        """From the baseline on this machine. `budget_s`: the longer it is, the further the gate looks."""
        step_s = mean_step_s(run)
        # Short blocks for long steps: rounds must stay affordable, and arms meet the same moment of the machine.
        block = 11 if step_s < 0.015 else 5 if step_s < 0.1 else 3
        rounds = min(_MAX_ROUNDS, max(_MIN_ROUNDS, round(_ARM_S / (block * step_s))))
        evidence = min(_MAX_EVIDENCE, max(_MIN_EVIDENCE, round(max(_EVIDENCE_S, _EVIDENCE_SHARE * budget_s) / step_s)))
        return cls(
            step_s=step_s,
            setup_s=run.setup_s or 5.0,
            block=block,
            steps=rounds * block,
            warmup=min(_MAX_WARM, max(_MIN_WARM, round(_WARM_S / step_s))),
            evidence_steps=evidence,
            together=min(_fitting_on_device(run), _fitting_on_host(run, machine)),
            cores=machine.usable_cores / run.world_size,
            epoch_steps=run.epoch_steps(),
            num_ranks=run.world_size,
        )

    def fewest(self) -> "Sizes":
        """As few steps as a ratio is told from: 12 to 44 of each arm, in blocks, behind a warm-up of 3. The rest of a
        budget may hold no more."""
        steps = min(self.steps, MIN_ROUNDS * self.block)
        return replace(self, steps=steps, warmup=min(self.warmup, _MIN_WARM))

    @property
    def beyond_s(self) -> float | None:
        """Seconds that the steps to an epoch's end take the base beyond those of a trial group, where one of processes
        that start afresh is followed so far, to see what its start and a validation cost: a plan goes so far, and it
        takes as much time again at most. None: it is not."""
        if self.epoch_steps is None or self.epoch_steps + BEYOND_EPOCH > EPOCH_STRETCH * self.steps:
            return None
        beyond_s = max(0, self.epoch_steps + BEYOND_EPOCH - self.warmup - self.steps) * self.step_s
        return beyond_s if beyond_s <= self._trial_group_s(2, 2, self.afresh_setup_s or self.setup_s) else None

    def arm_steps(self, num_arms: int) -> int:
        """Steps of each of them, so that each stands at each place equally often."""
        return self.block * whole_rounds(self.steps // self.block, num_arms)

    def fits_within(self, num_arms: int, num_steps: int | None) -> bool:
        """A training of so many steps is long enough to switch between them; None: its length is not known."""
        return num_steps is None or self.warmup + num_arms * self.arm_steps(num_arms) <= num_steps

    def after(self, starts_s: Sequence[float], *, forked: bool) -> "Sizes":
        """With starts of later processes: the first one of all may have read torch from the disk, or compiled it."""
        setup_s = min(self.setup_s, statistics.median(starts_s))
        afresh_s = self.afresh_setup_s or (self.setup_s if forked else None)
        return replace(self, setup_s=setup_s, afresh_setup_s=afresh_s)

    def trial_group_s(self, num_arms: int, *, switched: bool = False, afresh: bool = False) -> float:
        """What one trial group takes on a quiet machine, the base among its arms; `afresh`: none of its processes is a
        fork, and they go on to the end of an epoch where that is seen."""
        processes = 1 if switched else num_arms
        if not afresh:
            return self._trial_group_s(num_arms, processes, self.setup_s)
        afresh_s = self._trial_group_s(num_arms, processes, self.afresh_setup_s or self.setup_s)
        return afresh_s + processes * (self.beyond_s or 0.0)

    def _trial_group_s(self, num_arms: int, processes: int, setup_s: float) -> float:
        num_steps = num_arms * self.steps + processes * self.warmup
        return self._starts_s(processes, setup_s) + num_steps * self.step_s + 1.0

    def _starts_s(self, processes: int, setup_s: float) -> float:
        """Of processes that start at the same time, or one after the other where they are too many."""
        return setup_s * max(1.0, processes / min(max(1.0, self.cores), max(1, self.together)))

    def evidence_s(self, *num_steps: int) -> float:
        """What runs for the gate that start at the same time take on a quiet machine, of so many steps each; without
        any one of `evidence_steps`."""
        each_s = self.step_s + min(_DIGESTS * self.step_s, _DIGESTS_S)
        runs = num_steps or (self.evidence_steps,)
        return self._starts_s(len(runs), self.setup_s) + sum(runs) * each_s + 1.0


def _fitting_on_host(run: Run, machine: Machine) -> int:
    """Processes that the host's memory holds at once. A quarter on top: levers keep batches, caches, copies."""
    each = 1.25 * run.world_size * (run.rss_peak_bytes or 0)
    number = int(_MEMORY_SHARE * machine.available_bytes / each) if each else _MOST_TOGETHER
    return max(1, min(_MOST_TOGETHER, number))


def _fitting_on_device(run: Run) -> int:
    """Processes that the device's memory holds at once, where it is known how much each takes and what is left. Of
    several that train together each has, as a rule, a device for itself: another such job is not put beside it."""
    if run.device == "cpu":
        return _MOST_TOGETHER
    if run.device_free_bytes is None or run.device_reserved_bytes is None or run.world_size > 1:
        return 1
    each = 1.25 * run.device_reserved_bytes + _CONTEXT_BYTES
    return 1 + min(_MOST_TOGETHER - 1, int(_MEMORY_SHARE * run.device_free_bytes / each))


Stack = tuple[LeverSpec, ...]


class EditedScript:
    """The user's script under any levers. `known`: answers what is recorded of the baseline, once that is known."""

    def __init__(self, known: Callable[[], Run], *, cwd: str) -> None:
        self._known = known
        self._cwd = Path(cwd)
        self._patched: dict[str, source.Patched] = {}

    def plan(self, plan: Plan, stack: Stack) -> Plan:
        """`plan` with these levers, and no others, from the start of the process.

        Raises:
            UserError: one of them cannot be written, or not together with the others.
        """
        return replace(plan, always=stack, replaced=dict(self.patched(stack).texts))

    def patched(self, stack: Stack) -> source.Patched:
        """The files that these levers change: for the same ones the same, whatever became known of the script since,
        so that what is handed over is what was timed.

        Raises:
            UserError: as `plan`.
        """
        key = repr([sorted(spec.items()) for spec in stack])
        if key not in self._patched:
            run = self._known()
            for lever in map(levers.from_spec, stack):
                if not lever.by_environment and not lever.edits(run):
                    raise UserError(f"{lever.title()} finds no line of the script that it could change.")
            self._patched[key] = source.patch(levers.edits_of(stack, run), root=self._cwd)
        return self._patched[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What one of those that are compared differs in."""

    levers: Stack = ()
    """On top of what all have."""
    installed: Stack = ()
    """Levers that are no edit of the script: they are installed in its process."""
    free_input: bool = False
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Texts to be compared as they are, in place of levers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One trial group: arms that take turns, the first of which is the base."""

    arms: tuple[Arm, ...] = (Arm(),)
    stack: Stack = ()
    """Levers that all arms have, as edits of the script."""
    switched: bool = False
    """Levers of the arms are switched between steps within one process; else each arm is a process of its own, which
    runs the edited script."""
    afresh: bool = False
    """Each process is started as the user starts the script, and goes on until the start of the second epoch was seen,
    where it is not far, so that both starts are timed as well."""

    def plans(self, common: Plan, sizes: Sizes, script: EditedScript, *, order_seed: int) -> list[Plan]:
        """One for each process. `common`: what all have, the command foremost.

        Raises:
            UserError: levers cannot be written.
        """
        block = sizes.block
        plan = replace(
            common,
            steps=sizes.arm_steps(len(self.arms)),
            block=block,
            warmup=sizes.warmup,
            whole_epoch=self.afresh and sizes.beyond_s is not None,
            afresh=self.afresh,
            order_seed=order_seed,
        )
        if self.switched:
            return [replace(script.plan(plan, self.stack), arms=tuple(arm.levers for arm in self.arms))]
        return [self._plan_of(arm, plan, script) for arm in self.arms]

    def _plan_of(self, arm: Arm, plan: Plan, script: EditedScript) -> Plan:
        plan = replace(plan, arms=(arm.installed,), free_input=arm.free_input)
        if arm.replaced:
            return replace(plan, replaced=arm.replaced)
        return script.plan(plan, (*self.stack, *arm.levers))
