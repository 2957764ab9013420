"""Sets of levers -> log-ratios of step times, one per process: switched by blocks within it, or by turns between."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hotlap import levers, statistics
from hotlap.record import Failure, LeverSpec, Plan, Run, Turn
from hotlap.tune.failure import Failed, failed
from hotlap.tune.options import Options, Runs
from hotlap.tune.sizes import Pace, Sizes

Stack = tuple[LeverSpec, ...]

# A run that ended early still counts when it has this many steps of each arm.
_ENOUGH_STEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """What one contender of a heat differs in."""

    levers: Stack = ()
    """On top of what all have."""
    free_input: bool = False
    replaced: dict[str, str] = field(default_factory=dict)
    bare: bool = False
    """Without what all have: the script as written, or its patched copy."""
    warmup: int = 0
    """At least so many steps before it is timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """What one heat brought: for each arm but the first, the log-ratio to the first, or why there is none."""

    log_ratios: tuple[float | None, ...]
    failures: tuple[Failed | None, ...]
    runs: tuple[Run, ...]
    """One per process."""


def scope_of(stack: Stack) -> levers.Scope:
    """STEP if all levers can be switched between steps, else how they must be compared: between processes."""
    scopes = {levers.from_spec(spec).scope for spec in stack}
    return levers.Scope.STEP if scopes <= {levers.Scope.STEP} else levers.Scope.PROCESS


class Timing:
    """Plans heats of the right size and reads their outcome."""

    def __init__(
        self, runs: Runs, options: Options, sizes: Sizes, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._runs = runs
        self._options = options
        self._sizes = sizes
        self._now = now
        self._pace = Pace()
        self._last: tuple[Sequence[Run], float] = (), 0.0
        """A heat's processes, and seconds that it took."""

    @property
    def sizes(self) -> Sizes:
        """What heats are planned by."""
        return self._sizes

    def settle(self) -> None:
        """From now on starts are taken to be as long as those of the last heat."""
        found, took_s = self._last
        starts_s = [run.setup_s for run in found if run.setup_s is not None]
        if starts_s:
            self._sizes = self._sizes.after(starts_s)
            self._pace = Pace()
            self._pace.note(expected_s=self._sizes.expected_s(len(found)), took_s=took_s)

    @property
    def together(self) -> int:
        """Processes that may be alive at once."""
        return self._sizes.together

    def estimate_s(self, processes: int, *, arms: int = 1) -> float:
        """What a heat will take, as far as earlier ones tell."""
        return self._pace.factor * self._sizes.expected_s(processes, arms)

    def _timed(self, plans: Sequence[Plan], *, arms: int, limit_s: float) -> list[Run]:
        begun = self._now()
        if len(plans) <= self._sizes.together:
            found = self._runs(plans, limit_s=limit_s)
        else:
            found = [self._runs([plan], limit_s=limit_s / len(plans))[0] for plan in plans]
        self._last = found, self._now() - begun
        self._pace.note(expected_s=self._sizes.expected_s(len(plans), arms), took_s=self._last[1])
        return found

    def switched(self, stack: Stack, arms: Sequence[Stack], *, limit_s: float) -> Heat:
        """One process under `stack`, in which sets of levers take turns by blocks; the first set is the base."""
        plan = replace(self._plan(), always=stack, arms=tuple(arms), steps=self._sizes.steps)
        (run,) = self._timed([plan], arms=len(arms), limit_s=limit_s)
        failure = _failure(run, len(arms))
        ratios = {} if failure else statistics.log_ratios_of_arms(run)
        return Heat(
            log_ratios=tuple(ratios.get(k) for k in range(1, len(arms))),
            failures=tuple(_arm_failure(run, arms[k]) or failure for k in range(1, len(arms))),
            runs=(run,),
        )

    def duet(self, stack: Stack, arms: Sequence[Arm], *, limit_s: float) -> Heat:
        """One process for each arm, alive together and taking turns where memory allows; the first is the base."""
        together = len(arms) <= self._sizes.together
        plans = [self._process_plan(stack, arm, turn=together) for arm in arms]
        runs = self._timed(plans, arms=1, limit_s=limit_s)
        failures = [_failure(run, 1) or _arm_failure(run, run.always) for run in runs]
        ratios = [
            None if failures[0] or failures[k] else statistics.log_ratio_of_runs(runs[0], runs[k])
            for k in range(1, len(arms))
        ]
        if failures[0]:
            why = f"the script without it failed: {failures[0].why}"
            failures = [Failed(failures[0].kind, why)] * len(arms)
        return Heat(log_ratios=tuple(ratios), failures=tuple(failures[1:]), runs=tuple(runs))

    def _process_plan(self, stack: Stack, arm: Arm, *, turn: bool) -> Plan:
        plan = self._plan()
        return replace(
            plan,
            always=(() if arm.bare else stack) + arm.levers,
            free_input=arm.free_input,
            replaced=arm.replaced,
            warmup=max(plan.warmup, arm.warmup),
            turn=Turn(steps=self._sizes.block, ready="", go="") if turn else None,
        )

    def _plan(self) -> Plan:
        return Plan(
            command=self._options.command,
            cwd=self._options.cwd,
            out="",
            steps=self._sizes.steps,
            block=self._sizes.block,
            warmup=self._sizes.warmup,
            seed=self._options.seed,
        )


def log_ratio_within(run: Run) -> float | None:
    """One process without any switch -> what a comparison by blocks makes of its own blocks (truth: 0).

    Every other block is called B, in serpentine order: A/A within a process costs no process of its own.
    """
    halves = replace(run, arms=((), ()), arm=tuple(int(block % 4 in (1, 2)) for block in run.block))
    return statistics.log_ratios_of_arms(halves).get(1)


def _failure(run: Run, num_arms: int) -> Failed | None:
    """Why a run gives no times; None if it does."""
    if len(run.step_s) < _ENOUGH_STEPS * num_arms:
        return failed(run) or Failed(Failure.TOO_FEW_STEPS, f"only {len(run.step_s)} steps could be timed")
    return failed(run)


def _arm_failure(run: Run, stack: Stack) -> Failed | None:
    """Why the levers of one arm were not at work, if so."""
    titles = [levers.from_spec(spec).title() for spec in stack]
    for text in run.not_installed:
        if any(text.startswith(f"{title}:") for title in titles):
            return Failed(Failure.NOT_INSTALLED, text)
    return None
