"""What is worth a trial: levers that nothing rejects, by what they could save at most, alone and in pairs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hotlap import levers
from hotlap.levers import Lever, Numerics, Scope
from hotlap.record import LEAST_GAIN, LeverSpec, Machine, Run, Trial, Verdict
from hotlap.tune.desk import Desk
from hotlap.tune.part import facts
from hotlap.units import percent

Stack = tuple[LeverSpec, ...]
Candidate = tuple[Lever, ...]
"""Levers that are tried as one: most often a single one."""

# A lever whose bound is below this part of the step cannot reach the line.
_LEAST_SHARE = 1 - 1 / LEAST_GAIN

# Contenders that are switched within one process at most: the blocks of each get rarer with their number.
_MOST_SWITCHED = 5
# Contenders that share the base of a heat at most, each a process of its own: they share its start and its steps, and
# wait for one another.
_MOST_BESIDE = 3
# A lever with which alone the step ran at less than half its speed does not win with another one.
_HOPELESS = 0.5
# From what seemed to be gained on a lever with other numbers is tried again: the gate has ten runs to make then.
WORTH_TEN_RUNS = 1.1
# Only those whose bound is at least this part of the best one's: what wins changes what the others can save.
_LIKE_THE_BEST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What is worth a trial, and what it could bring."""

    candidate: Candidate
    bound_s: float
    """A step gets shorter by this at most; counted for less where other settings of the lever made it longer."""

    @property
    def scope(self) -> Scope:
        """Where it can be compared."""
        return Scope.STEP if all(lever.scope is Scope.STEP for lever in self.candidate) else Scope.PROCESS


PAIRS: tuple[tuple[str, str], ...] = (
    # No memory may be pinned while a graph is captured (NVIDIA's guide to CUDA graphs in PyTorch).
    ("pin-and-overlap", "cuda-graphs"),
    # Workers and the training's own threads share the cores: each alone may only take from the other.
    ("workers", "threads"),
    # Inductor lays memory out itself; eager kernels that convert between formats may be all that one alone brings.
    ("compile", "channels-last"),
    # Fused updates found worse losses behind a loss scale in the past (pytorch/pytorch#96755).
    ("fused-optimizer", "fp16-autocast"),
)
"""Levers whose effects are known not to simply multiply."""

SAME_WORK: tuple[tuple[str, str], ...] = (
    # The whole of a small step natively: there is nothing left of it to fuse, compile or capture.
    ("native-step", "fused-optimizer"),
    ("native-step", "compile"),
    ("native-step", "cuda-graphs"),
    # What is kept need not be made beside the training.
    ("workers", "cached-dataset"),
    ("workers", "prefetch-thread"),
    ("prefetch-thread", "cached-dataset"),
)
"""Two that save the same time: the second brings little where the first is at work, or costs."""


class Candidates:
    """Reads from the study what was tried, so it goes on where it stopped."""

    def __init__(self, desk: Desk, machine: Machine, *, together: int) -> None:
        self._desk = desk
        self._machine = machine
        self._together = together

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        accepted: list[LeverSpec] = []
        for trial in self._trials():
            if trial.kind == "lever" and trial.accepted:
                accepted += trial.levers
            elif trial.kind == "leave-one-out" and not trial.accepted:
                accepted = [spec for spec in accepted if spec not in trial.levers]
        return tuple(accepted)

    def profile(self) -> Run:
        """Where the time goes under the levers accepted so far; the facts are those of the script as written."""
        accepted = [trial for trial in self._trials() if trial.kind == "lever" and trial.accepted]
        timed = accepted[-1].runs[-1] if accepted and accepted[-1].runs else self._desk.study.baseline[0]
        return replace(facts(self._desk.study), step_s=timed.step_s, phase_s=timed.phase_s)

    def open(self) -> list[Promise]:
        """What is still worth a trial, the most promising first: levers alone; once none is left, a known pair."""
        profile = self.profile()
        tried = {key(trial.levers) for trial in self._trials() if trial.kind == "lever"}
        found = [
            Promise(bound_s=bound_s * min(1.0, self._best_speed(lever.name)), candidate=(lever,))
            for lever in self._not_rejected(profile)
            if key((lever.spec(),)) not in tried
            and (bound_s := self._bound_s((lever,), profile)) >= _LEAST_SHARE * profile.median_step_s()
        ]
        found.sort(key=lambda promise: -promise.bound_s)
        return found or self._next_pair(profile)

    def bundle(self) -> Promise | None:
        """Levers whose gains were too small to be shown alone, all at once: together they stand out of the same noise.
        Where there is but one, it is tried again, by more processes.

        Only what seemed to gain, and promises equal numbers or rounding; without the latter where the gate did not pass
        those; and of two that save the same time the better one. Once that was done, what promises other numbers and
        seemed to gain much is tried again, alone. None where all was done.
        """
        profile = self.profile()
        unshown = self._unshown(profile)
        members = [lever for lever in unshown if lever.numerics is not Numerics.STATISTICAL]
        tried = self._tried(members)
        if tried and tried[-1].runs and not tried[-1].accepted:
            members = [lever for lever in members if lever.numerics is Numerics.EXACT]
            tried = self._tried(members)
        if not members or len(tried) > (len(members) == 1):
            dear = [lever for lever in unshown if self._is_worth_ten_runs(lever)]
            members = sorted(dear, key=lambda lever: -self._best_speed(lever.name))[:1]
        if not members:
            return None
        speed = math.prod(self._best_speed(lever.name) for lever in members)
        return Promise(bound_s=profile.median_step_s() * (1 - 1 / speed), candidate=tuple(members))

    def _is_worth_ten_runs(self, lever: Lever) -> bool:
        return (
            lever.numerics is Numerics.STATISTICAL
            and self._best_speed(lever.name) >= WORTH_TEN_RUNS
            and len(self._tried((lever,))) == 1
        )

    def is_tried(self, candidate: Candidate) -> bool:
        """It had a trial before."""
        return bool(self._tried(candidate))

    def is_bundled(self, spec: LeverSpec) -> bool:
        """It was accepted with others, and not as one of a pair."""
        pairs = [set(names) for names in PAIRS]
        return any(
            spec in trial.levers and {str(one["name"]) for one in trial.levers} not in pairs
            for trial in self._trials()
            if trial.kind == "lever" and trial.accepted and len(trial.levers) > 1
        )

    def _unshown(self, profile: Run) -> list[Lever]:
        """Of each lever the setting that did best alone, if that seemed to gain but could not be shown to."""
        best: dict[str, tuple[float, Lever, Trial]] = {}
        for lever in self._not_rejected(profile):
            alone = next(iter(self._tried((lever,))), None)
            if alone is not None and alone.speedup is not None:
                this = alone.speedup.mid, lever, alone
                best[lever.name] = max(best.get(lever.name, this), this, key=lambda one: one[0])
        found = [
            (speed, lever)
            for speed, lever, alone in best.values()
            # With runs of its own it gained, and the gate did not pass it; with a cost it gained, and too late.
            if speed >= LEAST_GAIN and not alone.runs and alone.one_time_s is None and not self._fell(lever.name)
        ]
        taken = {str(spec["name"]) for spec in self.stack}
        for _, lever in sorted(found, key=lambda one: -one[0]):
            if not any(set(pair) <= taken | {lever.name} for pair in SAME_WORK if lever.name in pair):
                taken.add(lever.name)
        return [lever for _, lever in found if lever.name in taken]

    def _tried(self, members: Sequence[Lever]) -> list[Trial]:
        specs = key(tuple(lever.spec() for lever in members))
        return [one for one in self._trials() if one.kind == "lever" and key(one.levers) == specs]

    def groups(self, open_: Sequence[Promise]) -> list[list[Promise]]:
        """Those that can be compared in the same processes: by steps within one, or side by side."""
        switched = [one for one in open_ if one.scope is Scope.STEP]
        others = [one for one in open_ if one not in switched]
        beside = max(1, min(_MOST_BESIDE, self._together - 1))
        like_the_best = [one for one in others if one.bound_s >= _LIKE_THE_BEST * others[0].bound_s]
        return [group for group in (switched[:_MOST_SWITCHED], like_the_best[:beside]) if group]

    def _next_pair(self, profile: Run) -> list[Promise]:
        """Two levers that are known to interact, and were not tried together; one alone where the other is accepted."""
        for names in PAIRS:
            if all(self._wanted(name) for name in names):
                found = self._of_pair(names, profile)
                bound_s = self._bound_s(found, profile) if found else 0.0
                if found and bound_s >= _LEAST_SHARE * profile.median_step_s():
                    return [Promise(bound_s=bound_s, candidate=found)]
        return []

    def _of_pair(self, names: tuple[str, str], profile: Run) -> Candidate | None:
        taken = {str(spec["name"]) for spec in self.stack}
        missing = [name for name in names if name not in taken]
        if not missing or any(self._fell(name) for name in missing):
            return None
        found = tuple(lever for name in missing if (lever := self._best(name, profile)) is not None)
        if len(found) < len(missing):
            return None
        specs = key(tuple(lever.spec() for lever in found))
        others = set(names) - set(missing)
        for trial in self._trials():
            beneath = {str(spec["name"]) for spec in trial.on_top_of}
            if trial.kind == "lever" and key(trial.levers) == specs and others <= beneath:
                return None
        return found

    def _best_speed(self, name: str) -> float:
        """Of the settings of this lever that were tried alone, as a factor; 1 where none was."""
        speeds = [
            trial.speedup.mid
            for trial in self._trials()
            if trial.kind == "lever" and trial.speedup and [spec["name"] for spec in trial.levers] == [name]
        ]
        return max(speeds, default=1.0)

    def _fell(self, name: str) -> bool:
        """It failed alone, harmed training, or made it far slower: no other lever mends that."""
        return self._best_speed(name) < _HOPELESS or any(
            trial.failure is not None or trial.verdict is Verdict.HARMED
            for trial in self._trials()
            if [spec["name"] for spec in trial.levers] == [name] and trial.scope != "none"
        )

    def _best(self, name: str, profile: Run) -> Lever | None:
        """Its setting that did best alone; else the first that nothing rejects."""
        open_ = [lever for lever in self._not_rejected(profile) if lever.name == name]
        speed = {
            key(trial.levers): trial.speedup.mid
            for trial in self._trials()
            if trial.kind == "lever" and trial.speedup is not None
        }
        return max(open_, key=lambda lever: speed.get(key((lever.spec(),)), 0.0), default=None)

    def rejected(self) -> Iterator[Trial]:
        """Levers that were not worth a trial: why."""
        profile = self.profile()
        known = {str(spec["name"]) for trial in self._trials() for spec in trial.levers}
        known |= {lever.name for one in self.open() for lever in one.candidate}
        for kind in levers.ALL:
            if kind.name in known or not self._wanted(kind.name):
                continue
            lever = next(iter(kind.candidates(profile, self._machine)), None) or kind()
            reason = lever.rejects(profile, self._machine) or (
                f"It could save {percent(self._bound_s((lever,), profile) / profile.median_step_s())} of a step at "
                "most."
            )
            yield Trial(levers=({"name": kind.name},), on_top_of=self.stack, scope="none", why=f"Not tried. {reason}")

    def _not_rejected(self, profile: Run) -> Iterator[Lever]:
        taken = {spec["name"] for spec in self.stack}
        for kind in levers.ALL:
            if kind.name in taken or not self._wanted(kind.name):
                continue
            for lever in kind.candidates(profile, self._machine):
                if lever.rejects(profile, self._machine) is None:
                    yield lever

    def _bound_s(self, candidate: Candidate, profile: Run) -> float:
        return sum(lever.saves_at_most_s(profile, self._desk.study.ceilings) for lever in candidate)

    def _wanted(self, name: str) -> bool:
        return self._desk.options.levers is None or name in self._desk.options.levers

    def _trials(self) -> Sequence[Trial]:
        return self._desk.study.trials


def key(stack: Stack) -> tuple[tuple[tuple[str, object], ...], ...]:
    """To know a set of levers again."""
    return tuple(tuple(sorted(spec.items())) for spec in stack)
