"""What comparisons, the gate and the end of a study take of the budget, and what it affords."""

import math
from collections.abc import Sequence

from hotlap.experiment import PLANNED, Executor
from hotlap.experiment.statistics import FEWEST_SHOWN, MOST, fewest_for_a_gain
from hotlap.record import Trial
from hotlap.search.candidates import CLEAR, MOST_SWITCHED, Candidate, Candidates, compatible, grouped, stacked
from hotlap.search.confirmation import fewest_trial_groups, whole_trainings_s
from hotlap.search.gate_runs import GateRuns
from hotlap.search.study_log import StudyLog

# A study goes on, where the budget is ours to choose, for what could take this part off a step: less is hardly shown on
# a machine on which the usual budget was not enough.
_WORTH_MORE = 0.10

# Trial groups that are planned at least for what is compared again.
_FEWEST_AGAIN = 8

MOST_LATE = 0.15
"""Part of the budget by which a study may end late where a gain would be lost else."""

# What compiling a model adds to trial groups that decide a clear case, about: three beside two modes of `compile` took
# 10 s longer on an H200.
_COMPILING_S = 10.0

Group = Sequence[Candidate]
"""What is compared in the same processes."""


class Costs:
    """Of one study, as far as it is known: `candidates` are what was tried in it, and what is left to try."""

    def __init__(self, log: StudyLog, executor: Executor, gate: GateRuns) -> None:
        self._log = log
        self._executor = executor
        self._gate = gate
        self.candidates = Candidates(log, lambda one: self.trial_groups_s([one]))

    @property
    def end_s(self) -> float:
        """What the end of the study takes; 0 once it was."""
        return self.confirmation_s() if self._log.study.result is None else 0.0

    def confirmation_s(self) -> float:
        """Trial groups of the baseline and its patched copy, and the gate."""
        trial_groups_s = fewest_trial_groups(self._log, self._executor) * self._executor.estimate_s(afresh=True)
        return trial_groups_s + self._gate.estimate_s(self.candidates.stack) + 5.0

    @property
    def kept_s(self) -> float:
        """The end, and whole trainings where they are short and something gained: until then the time is for finding
        it, and what gained is judged first. (Of four minutes 80 s were kept for them, 75 s told the noise, and what was
        1.3x in two trial groups got no third.)"""
        gained = self._log.study.result is None and (self.candidates.stack or self.candidates.shown())
        return self.end_s + (whole_trainings_s(self._log, self._gate) if gained else 0.0)

    def groups(self, found: Group) -> list[list[Candidate]]:
        """As `grouped`, with as many of them at once as processes and steps allow."""
        sizes, num_steps = self._executor.sizes, self._log.study.total_steps
        fits = [num for num in range(2, MOST_SWITCHED + 1) if sizes.fits_within(num + 1, num_steps)]
        return grouped(found, together=sizes.together, nodes=self._executor.nodes, most_switched=max(fits, default=1))

    def scope(self, one: Candidate) -> str:
        """As `Trial.scope`."""
        return f"short {one.scope}" if self._executor.sizes == self._executor.sizes.fewest() else one.scope

    def shorten(self) -> bool:
        """From now on trial groups have the fewest steps; False where they have."""
        before = self._executor.sizes
        self._executor.sizes = before.fewest()
        return self._executor.sizes != before

    def affords(self, group: Group, *, keep_s: float, times_only: bool = False) -> bool:
        """The trial groups that decide a clear case, and the gate; or one trial group. `keep_s`: for what comes after
        that."""
        if times_only:
            return self._log.budget.affords(self.trial_group_s(group), keep_s=keep_s)
        return self._log.budget.affords(self.trial_groups_s(group), max(map(self.gate_s, group)), keep_s=keep_s)

    def affords_proof(self, one: Candidate) -> bool:
        """What gained was afforded before its trial groups, and they may have taken longer."""
        return self.affords([one], keep_s=self.end_s - (self._late_s if self.is_compared(one) else 0.0))

    def proof_kept_s(self, one: Candidate) -> float:
        """The gate of what has gained just now, and the end, while others are timed on; 0 where they do not fit anyhow.
        (2.5x was clear after two trial groups, three more of what was 1.3x left no time for its gate, and nothing was
        proven.)"""
        needs_s = self.gate_s(one) + self.end_s - self._log.budget.extension_s
        return max(0.0, needs_s) if self._log.budget.affords(needs_s - self._late_s) else 0.0

    @property
    def _late_s(self) -> float:
        return MOST_LATE * self._log.budget.total_s

    def trial_group_s(self, group: Group) -> float:
        """One trial group that compares the group."""
        return self._executor.estimate_s(len(group) + 1, switched=group[0].switched)

    def trial_groups_s(self, group: Group) -> float:
        """The trial groups that decide a clear case; none where all were compared."""
        if all(map(self.is_compared, group)):
            return 0.0
        compiles = any(lever.compiles for one in group for lever in one.levers)
        return CLEAR * self.trial_group_s(group) + _COMPILING_S * compiles

    def gate_s(self, one: Candidate) -> float:
        """Its gate, on top of what is accepted."""
        return self._gate.look_s() + self._gate.estimate_s((*self.candidates.stack, *one.specs))

    def proof_s(self, one: Candidate) -> float:
        """All that it takes until it is accepted or refused."""
        return self._executor.estimate_s() + self.trial_groups_s([one]) + self.gate_s(one)

    def needs_s(self, wanted: Group) -> float:
        """The budget that takes one group of these to its end; with the noise, where that was left out."""
        noise_s = 0.0 if self._log.study.noise else CLEAR * self._executor.estimate_s(3)
        proof_s = max(self.trial_groups_s(group) + max(map(self.gate_s, group)) for group in self.groups(wanted))
        return self._log.budget.spent_s + noise_s + self._executor.estimate_s() + proof_s + self.confirmation_s()

    def is_compared(self, one: Candidate) -> bool:
        """It was shown to gain on top of what is accepted now."""
        return one.trial is not None and bool(one.trial.runs) and one.trial.on_top_of == self.candidates.stack

    def goes_on_from(self, one: Candidate) -> Trial | None:
        """What was undecided when it was compared with the same base, in the same way; None where that was not."""
        trial = one.trial
        if trial is None or trial.runs or (trial.on_top_of, trial.scope) != (self.candidates.stack, self.scope(one)):
            return None
        return trial

    def is_worth_more_time(self) -> bool:
        """What is left could make a step much shorter: by what was measured; by bounds if nothing was found."""
        step_s = self.candidates.profile().median_step_s()
        measured = [*self.candidates.unjudged(), stacked(compatible(self.candidates.unshown()))]
        saves = [1 - math.exp(-one.log_gain) for one in measured]
        bounds = [] if self.candidates.stack else [one.bound_s / step_s for one in self.candidates.open()]
        return max([*saves, *bounds]) >= _WORTH_MORE

    def planned(self, group: Group) -> int:
        """Trial groups at most. Said before the first, as looks are counted. As few as show an interval where more
        would leave others untried, as on a busy machine: what seems to gain is timed again."""
        if group[0].log_gain > 0.0 and not group[0].shown:  # it seemed to gain
            left_s = self._log.budget.left_s - self.end_s - self.gate_s(group[0])
            return max(_FEWEST_AGAIN, min(MOST, int(left_s / self._executor.estimate_s())))
        tried_now = {one.key for one in group}
        others = [one for one in self.candidates.open() if one.key not in tried_now]
        # All trial groups of the group, and those that decide clear cases among what is tried after it.
        needs_s = PLANNED * self.trial_group_s(group) + CLEAR * math.fsum(map(self.trial_group_s, self.groups(others)))
        if not others or self._log.budget.affords(needs_s, keep_s=self.kept_s):
            return PLANNED
        return max(FEWEST_SHOWN, fewest_for_a_gain(self._log.pooled(self.scope(group[0]))))
