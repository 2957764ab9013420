"""Several arms against one base, trial group after trial group, until it is decided of each whether it is faster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from hotlap.experiment import statistics
from hotlap.experiment.design import Arm, Design
from hotlap.experiment.executor import Executor, TrialGroup
from hotlap.experiment.failure import Failed
from hotlap.experiment.statistics import FEWEST_SHOWN, Pool, Progress, Rule
from hotlap.experiment.total import break_even_step, one_time_s, step_within_s
from hotlap.record import Failure, Interval, Run, of_arm

# A trial group whose base failed says nothing of the others, and one that was stopped before it had enough steps, as on
# a machine that others began to use, says nothing at all: it is run again; not more often than this.
_MOST_LOST = 1


@dataclass(slots=True)
class Effect:
    """What one arm does to the step of the base, as far as it is known."""

    arm: Arm
    pooled: Pool | None = None
    """Variance of earlier comparisons of its kind."""
    log_ratios: list[float] = field(default_factory=list)
    """One per trial group."""
    progress: Progress = Progress.GO_ON
    failure: Failed | None = None
    runs: list[tuple[Run, Run]] = field(default_factory=list)
    """Of each trial group the processes of the base and of the arm; one and the same where arms were switched in it."""

    @property
    def open(self) -> bool:
        """More trial groups are wanted."""
        return self.failure is None and self.progress is Progress.GO_ON

    @property
    def gained(self) -> bool:
        """It is faster than the line."""
        return self.failure is None and self.progress is Progress.GAIN

    @property
    def mean(self) -> float:
        """Log-ratio to the base, so far."""
        return sum(self.log_ratios) / len(self.log_ratios) if self.log_ratios else 0.0

    @property
    def speedup(self) -> Interval | None:
        """Over the base; None where too few processes were timed to show an interval."""
        if len(self.log_ratios) < FEWEST_SHOWN:
            return None
        return statistics.interval(self.log_ratios, pooled_variance=self.pooled)

    @property
    def pairs(self) -> list[tuple[Run, Run]]:
        """Base and own process of each trial group, where they are two."""
        return [(base, run) for base, run in self.runs if base is not run]

    @property
    def typical_pair(self) -> tuple[Run, Run] | None:
        """The pair whose ratio of mean steps is the median of all; None without one."""
        timed = [pair for pair in self.pairs if all(run.step_s for run in pair)]
        timed.sort(key=lambda pair: step_within_s(pair[0]) / step_within_s(pair[1]))
        return timed[len(timed) // 2] if timed else None

    @property
    def one_time_s(self) -> float | None:
        """What it costs once; None where that was not seen, or may be chance."""
        return one_time_s(self.pairs)

    @property
    def break_even_step(self) -> int | None:
        """The step from which on that has paid itself back; None where it costs nothing, or never does."""
        cost_s, pair = self.one_time_s, self.typical_pair
        if cost_s is None or pair is None:
            return None
        before_s, after_s = map(step_within_s, pair)
        return break_even_step(cost_s, before_s, after_s)

    @property
    def run(self) -> Run | None:
        """The last process that it ran in; of one with several arms only its own steps."""
        if not self.runs:
            return None
        run = self.runs[-1][1]
        if len(run.arms) == 1:
            return run
        return of_arm(run, next(k for k, levers in enumerate(run.arms) if levers == self.arm.levers))


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Trial groups of a base and of what is still open, until nothing is, or the time is over."""

    effects: Sequence[Effect]
    design: Design
    """Its only arm is the base."""
    rule: Rule = field(default_factory=Rule)
    time_left: Callable[[], bool] = lambda: True
    _number: int = 0
    _num_lost: int = 0

    @property
    def num_left(self) -> int:
        """Trial groups at most from now on."""
        left = self.rule.planned - self.rule.earlier - self._number
        return left if left > 0 and self.time_left() and any(effect.open for effect in self.effects) else 0

    def next_design(self) -> Design:
        """The base, and what is still open."""
        arms = (effect.arm for effect in self.effects if effect.open)
        return replace(self.design, arms=(self.design.arms[0], *arms))

    def note(self, trial_groups: Sequence[TrialGroup]) -> None:
        """Of the last design."""
        still = [effect for effect in self.effects if effect.open]
        for trial_group in trial_groups:
            lost = trial_group.base_failed or any(map(_was_stopped, trial_group.outcomes))
            again = lost and self._num_lost < _MOST_LOST
            self._number, self._num_lost = self._number + (not again), self._num_lost + again
            for k, effect in enumerate(still):
                self._note(effect, trial_group, k, again=again)

    def _note(self, effect: Effect, trial_group: TrialGroup, k: int, *, again: bool) -> None:
        """What a trial group says of arm `k`, the base not counted. `again`: what says nothing is no failure yet."""
        outcome = trial_group.outcomes[k]
        if not isinstance(outcome, Failed):
            effect.log_ratios.append(outcome)
            effect.runs.append((trial_group.runs[0], trial_group.runs[k + 1 if len(trial_group.runs) > 1 else 0]))
            if effect.open:  # what was decided by a trial group beside this one stays so
                effect.progress = self.rule.progress(effect.log_ratios, effect.pooled)
        elif not (again and (trial_group.base_failed or _was_stopped(outcome))):
            effect.failure = outcome


def compare(executor: Executor, *comparisons: Comparison) -> None:
    """On one node one comparison after the other; on several as many as there are nodes, which they share: up to three
    trial groups of each, which decide most. What cannot be written needs no trial group."""
    for one in comparisons:
        base_failure = executor.unwritten(one.design, one.design.arms[0])
        for effect in one.effects:
            effect.failure = executor.unwritten(one.design, effect.arm) or base_failure
    while going_on := [one for one in comparisons if one.num_left]:
        now = going_on[: executor.nodes]
        share, rest = divmod(executor.nodes, len(now))
        counts = [min(FEWEST_SHOWN, share + (k < rest), one.num_left) for k, one in enumerate(now)]
        designs = [one.next_design() for one, count in zip(now, counts, strict=True) for _ in range(count)]
        trial_groups = iter(executor.trial_groups(*designs))
        for one, count in zip(now, counts, strict=True):
            one.note(list(islice(trial_groups, count)))


def _was_stopped(outcome: float | Failed) -> bool:
    return isinstance(outcome, Failed) and outcome.kind is Failure.TOO_FEW_STEPS
