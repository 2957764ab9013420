"""What is worth a trial: levers that nothing rejects, by what they could save at most, alone and in pairs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hotlap import levers
from hotlap.experiment import Arm, Stack
from hotlap.levers import Lever, Numerics, Scope
from hotlap.record import LEAST_GAIN, LeverSpec, Machine, Run, Study, Trial, Verdict
from hotlap.search.study_log import StudyLog, facts
from hotlap.units import percent

# A lever whose bound is below this part of the step cannot reach the line.
_LEAST_SHARE = 1 - 1 / LEAST_GAIN

# Arms that are switched within one process at most, beside the base: the blocks of each get rarer with their number.
_MOST_SWITCHED = 5
# Arms that share the base of a heat at most, each a process of its own: they share its start and its steps, and wait
# for one another.
_MOST_BESIDE = 3
# A lever with which alone the step ran at less than half its speed does not win with another one.
_HOPELESS = 0.5
# From what seemed to be gained on a lever with other numbers is tried again: the gate has ten runs to make then.
WORTH_TEN_RUNS = 1.1
# Only those whose bound is at least this part of the best one's: what wins changes what the others can save.
_LIKE_THE_BEST = 0.5

Key = tuple[tuple[tuple[str, object], ...], ...]


def key(stack: Stack) -> Key:
    """To know a set of levers again."""
    return tuple(tuple(sorted(spec.items())) for spec in stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Levers that are tried as one: most often a single one."""

    levers: tuple[Lever, ...]
    bound_s: float
    """Upper bound on seconds saved per step; counted for less where other settings of the lever made it longer."""

    @property
    def specs(self) -> Stack:
        """The levers as data."""
        return tuple(lever.spec() for lever in self.levers)

    @property
    def key(self) -> Key:
        """The same for the same levers, whatever their bound."""
        return key(self.specs)

    @property
    def arm(self) -> Arm:
        """For a comparison."""
        return Arm(levers=self.specs)

    @property
    def switched(self) -> bool:
        """It is compared within one process."""
        return all(lever.scope is Scope.STEP for lever in self.levers)

    @property
    def scope(self) -> str:
        """As `Trial.scope`."""
        return "step" if self.switched else "process"

    @property
    def other_numbers(self) -> bool:
        """The gate has other seeds to try under it, ten runs in all."""
        return any(lever.numerics is Numerics.STATISTICAL for lever in self.levers)

    @property
    def title(self) -> str:
        """For people: "threads count=1", "compile + channels-last"."""
        return " + ".join(lever.title() for lever in self.levers)


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
)
"""Two that save the same time: the second brings little where the first is at work, or costs."""


ALTERNATIVES: tuple[tuple[str, ...], ...] = (
    # The items of a data set are served by one of them: gathered where they lie, or kept whole, or kept in part.
    ("batched-fetch", "cached-dataset", "cached-prefix"),
    ("batched-fetch", "device-resident", "cached-prefix"),
    # Items that are gathered or kept whole pass no transform that could be put off.
    ("late-transform", "batched-fetch"),
    ("late-transform", "cached-dataset"),
    ("late-transform", "device-resident"),
    # One half precision for the calls of a model.
    ("bf16-autocast", "fp16-autocast"),
)
"""Levers of which one excludes the others: they are never accepted together."""


def alternative(name: str, taken: Iterable[str]) -> str | None:
    """A lever of those taken that excludes the one of this name; None where there is none."""
    return next(
        (other for other in taken if other != name and any({name, other} <= set(group) for group in ALTERNATIVES)), None
    )


class Candidates:
    """Reads from the study what was tried, so it goes on where it stopped. `together`: processes that may be alive."""

    def __init__(self, log: StudyLog, machine: Machine, *, together: int) -> None:
        self._log = log
        self._machine = machine
        self._together = together
        self._passed: tuple[Study, list[Lever]] | None = None

    @property
    def stack(self) -> Stack:
        """What is accepted, in order."""
        accepted: list[LeverSpec] = []
        for trial in self._log.study.trials:
            if trial.kind == "lever" and trial.accepted:
                accepted += trial.levers
            elif trial.kind == "leave-one-out" and not trial.accepted:
                accepted = [spec for spec in accepted if spec not in trial.levers]
        return tuple(accepted)

    def profile(self) -> Run:
        """Where the time goes under the levers accepted so far; the facts are those of the script as written."""
        accepted = [trial for trial in self._trials() if trial.accepted]
        timed = accepted[-1].runs[-1] if accepted and accepted[-1].runs else self._log.study.baseline[0]
        return replace(facts(self._log.study), step_s=timed.step_s, phase_s=timed.phase_s)

    def open(self) -> list[Candidate]:
        """What is still worth a trial, the most promising first: levers alone; once none is left, a known pair."""
        profile = self.profile()
        tried = {key(trial.levers) for trial in self._trials()}
        alone = (self._candidate((lever,), profile) for lever in self._not_rejected())
        found = [
            replace(one, bound_s=one.bound_s * min(1.0, self._best_speed(one.levers[0].name)))
            for one in alone
            if one.key not in tried and self._is_worth_it(one, profile)
        ]
        found.sort(key=lambda one: -one.bound_s)
        return found or self._next_pair(profile)

    def bundle(self) -> Candidate | None:
        """Levers whose gains were too small to be shown alone, all at once: together they stand out of the same noise.
        Where there is but one, it is tried again, by more processes.

        Only what seemed to gain, and promises equal numbers or rounding; without the latter where the gate did not pass
        those; and of two that save the same time the better one. Once that was done, what promises other numbers and
        seemed to gain much is tried again, alone. None where all was done.
        """
        profile = self.profile()
        unshown = self._unshown()
        members = [lever for lever in unshown if lever.numerics is not Numerics.STATISTICAL]
        tried = self._trials_of(members)
        if tried and tried[-1].runs and not tried[-1].accepted:
            members = [lever for lever in members if lever.numerics is Numerics.EXACT]
            tried = self._trials_of(members)
        if not members or len(tried) > (len(members) == 1):
            again = [lever for lever in unshown if self._is_worth_ten_runs(lever)]
            members = sorted(again, key=lambda lever: -self._best_speed(lever.name))[:1]
        if not members:
            return None
        speed = math.prod(self._best_speed(lever.name) for lever in members)
        return Candidate(bound_s=profile.median_step_s() * (1 - 1 / speed), levers=tuple(members))

    def is_tried(self, candidate: Candidate) -> bool:
        """It had a trial before."""
        return bool(self._trials_of(candidate.levers))

    def is_bundled(self, spec: LeverSpec) -> bool:
        """It was accepted with others, and not as one of a pair."""
        pairs = [set(names) for names in PAIRS]
        return any(
            spec in trial.levers and set(_names(trial.levers)) not in pairs
            for trial in self._trials()
            if trial.accepted and len(trial.levers) > 1
        )

    def groups(self, open_: Sequence[Candidate]) -> list[list[Candidate]]:
        """Those that can be compared in the same processes: by steps within one, or side by side."""
        switched = [one for one in open_ if one.switched]
        others = [one for one in open_ if not one.switched]
        beside = max(1, min(_MOST_BESIDE, self._together - 1))
        like_the_best = [one for one in others if one.bound_s >= _LIKE_THE_BEST * others[0].bound_s]
        return [group for group in (switched[:_MOST_SWITCHED], like_the_best[:beside]) if group]

    def rejected(self) -> Iterator[Trial]:
        """Levers that were not worth a trial: why."""
        profile = self.profile()
        known = {name for trial in self._log.study.trials for name in _names(trial.levers)}
        known |= {lever.name for one in self.open() for lever in one.levers}
        for kind in levers.ALL:
            if kind.name in known or not self._wanted(kind.name):
                continue
            lever = next(iter(kind.candidates(profile, self._machine)), None) or kind()
            other = alternative(kind.name, _names(self.stack))
            share = self._candidate((lever,), profile).bound_s / profile.median_step_s()
            reason = (
                lever.rejects(profile, self._machine)
                or (f"It is an alternative to {other}, which was accepted." if other is not None else None)
                or f"It could save {percent(share)} of a step at most."
            )
            yield Trial(levers=({"name": kind.name},), on_top_of=self.stack, scope="none", why=f"Not tried. {reason}")

    def _unshown(self) -> list[Lever]:
        """Of each lever the setting that did best alone, if that seemed to gain but could not be shown to."""
        best: dict[str, tuple[float, Lever, Trial]] = {}
        for lever in self._not_rejected():
            alone = next(iter(self._trials_of((lever,))), None)
            if alone is not None and alone.seen is not None:
                this = alone.seen, lever, alone
                best[lever.name] = max(best.get(lever.name, this), this, key=lambda one: one[0])
        found = [
            (speed, lever)
            for speed, lever, alone in best.values()
            # With runs of its own it gained, and the gate did not pass it; with a cost it gained, and too late.
            if speed >= LEAST_GAIN and not alone.runs and alone.one_time_s is None and not self._fell(lever.name)
        ]
        taken = set(_names(self.stack))
        for _, lever in sorted(found, key=lambda one: -one[0]):
            same = any(set(pair) <= taken | {lever.name} for pair in SAME_WORK if lever.name in pair)
            if not same and alternative(lever.name, taken) is None:
                taken.add(lever.name)
        return [lever for _, lever in found if lever.name in taken]

    def _is_worth_ten_runs(self, lever: Lever) -> bool:
        return (
            lever.numerics is Numerics.STATISTICAL
            and self._best_speed(lever.name) >= WORTH_TEN_RUNS
            and len(self._trials_of((lever,))) == 1
        )

    def _next_pair(self, profile: Run) -> list[Candidate]:
        """Two levers that are known to interact, and were not tried together; one alone where the other is accepted."""
        pairs = (self._of_pair(names, profile) for names in PAIRS if all(self._wanted(name) for name in names))
        found = (one for one in pairs if one is not None and self._is_worth_it(one, profile))
        return [one for one in (next(found, None),) if one is not None]

    def _of_pair(self, names: tuple[str, str], profile: Run) -> Candidate | None:
        missing = [name for name in names if name not in _names(self.stack)]
        if not missing or any(self._fell(name) for name in missing):
            return None
        found = tuple(lever for name in missing if (lever := self._best(name)) is not None)
        others = set(names) - set(missing)
        tried = any(others <= set(_names(trial.on_top_of)) for trial in self._trials_of(found))
        return None if tried or len(found) < len(missing) else self._candidate(found, profile)

    def _best(self, name: str) -> Lever | None:
        """Its setting that did best alone; else the first that nothing rejects."""
        open_ = [lever for lever in self._not_rejected() if lever.name == name]
        return max(open_, key=lambda lever: max(_speeds(self._trials_of((lever,))), default=0.0), default=None)

    def _best_speed(self, name: str) -> float:
        """Of the settings of this lever that were tried alone, as a factor; 1 where none was."""
        return max(_speeds(trial for trial in self._trials() if _names(trial.levers) == [name]), default=1.0)

    def _fell(self, name: str) -> bool:
        """It failed alone, harmed training, or made it far slower: no other lever changes that."""
        return self._best_speed(name) < _HOPELESS or any(
            trial.failure is not None or trial.verdict is Verdict.HARMED
            for trial in self._log.study.trials
            if _names(trial.levers) == [name] and trial.scope != "none"
        )

    def _not_rejected(self) -> list[Lever]:
        """What fits the script and the levers accepted so far; the same as long as the study is."""
        study = self._log.study
        if self._passed is None or self._passed[0] is not study:
            self._passed = study, list(self._fitting(self.profile()))
        return self._passed[1]

    def _fitting(self, profile: Run) -> Iterator[Lever]:
        taken = _names(self.stack)
        for kind in levers.ALL:
            if kind.name in taken or alternative(kind.name, taken) is not None or not self._wanted(kind.name):
                continue
            for lever in kind.candidates(profile, self._machine):
                if lever.rejects(profile, self._machine) is None:
                    yield lever

    def _candidate(self, members: tuple[Lever, ...], profile: Run) -> Candidate:
        ceilings = self._log.study.ceilings
        return Candidate(levers=members, bound_s=sum(one.saves_at_most_s(profile, ceilings) for one in members))

    def _is_worth_it(self, candidate: Candidate, profile: Run) -> bool:
        return candidate.bound_s >= _LEAST_SHARE * profile.median_step_s()

    def _wanted(self, name: str) -> bool:
        return self._log.options.levers is None or name in self._log.options.levers

    def _trials(self) -> list[Trial]:
        return [trial for trial in self._log.study.trials if trial.kind == "lever"]

    def _trials_of(self, members: Sequence[Lever]) -> list[Trial]:
        specs = key(tuple(lever.spec() for lever in members))
        return [trial for trial in self._trials() if key(trial.levers) == specs]


def _names(stack: Stack) -> list[str]:
    return [str(spec["name"]) for spec in stack]


def _speeds(trials: Iterable[Trial]) -> list[float]:
    """What was seen of them, as factors."""
    return [trial.seen for trial in trials if trial.seen]
