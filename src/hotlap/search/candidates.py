"""What is worth a trial: levers that nothing rejects, by what they could save; and what their trials left open."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hotlap import levers
from hotlap.experiment import PLANNED, Rule, Stack
from hotlap.experiment.statistics import MOST, Progress
from hotlap.levers import Lever, Numerics, Scope
from hotlap.record import LEAST_GAIN, LeverSpec, Machine, Run, Trial
from hotlap.search.alternatives import alternative, excluding
from hotlap.search.study_log import Key, StudyLog, facts, key
from hotlap.units import percent

# A lever whose bound is below this part of the step cannot reach the line.
_LEAST_SHARE = 1 - 1 / LEAST_GAIN

MUCH_SHORTER = 1.5
"""Once a step is so many times shorter, what was tried in vain before is tried again: what it saves is that much more
of it."""

CLEAR = 2
"""Trial groups that decide whether something is faster, where that is clear."""

# Arms that are switched within one process at most, beside the base: the blocks of each get rarer with their number.
MOST_SWITCHED = 5
# Arms that share the base of a trial group at most, each a process of its own: they share its start and its steps, and
# wait for one another.
_MOST_BESIDE = 3
# Only those that are worth at least this part of the best one: what wins changes what the others can save.
_LIKE_THE_BEST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Levers that are compared, and judged, as one: one that was not tried, or a stack of what was faster alone."""

    levers: tuple[Lever, ...]
    bound_s: float = 0.0
    """Upper bound on seconds saved per step."""
    worth: float = 0.0
    """The same for each second that its trial takes."""
    log_gain: float = 0.0
    """Logarithm of the speed-up that was seen, of the whole training where it costs something once; of a stack, if its
    levers' multiply."""
    shown: bool = False
    """It gained so clearly that it is no chance."""
    trial: Trial | None = None
    """That comparison, as the study holds it; None where it was not made."""
    afresh: bool = False
    """It is compared between processes, whatever its levers: several that train together have it from their start."""

    @property
    def specs(self) -> Stack:
        """The levers as data."""
        return tuple(lever.spec() for lever in self.levers)

    @property
    def key(self) -> Key:
        """The same for the same levers."""
        return key(self.specs)

    @property
    def names(self) -> list[str]:
        """Of the levers, whatever their settings."""
        return [lever.name for lever in self.levers]

    @property
    def titles(self) -> list[str]:
        """Of the levers, with their settings: "threads count=1"."""
        return [lever.title() for lever in self.levers]

    @property
    def title(self) -> str:
        """For people: "threads count=1", "compile + channels-last"."""
        return " + ".join(self.titles)

    @property
    def switched(self) -> bool:
        """It is compared within one process."""
        return not self.afresh and all(lever.scope is Scope.STEP for lever in self.levers)

    @property
    def of_loaders(self) -> bool:
        """It shortens the wait for batches, as others of its kind do."""
        return any(lever.scope is Scope.LOADER for lever in self.levers)

    @property
    def scope(self) -> str:
        """As `Trial.scope`."""
        return "step" if self.switched else "process"

    @property
    def other_numbers(self) -> bool:
        """The gate has other seeds to try under it, ten runs in all."""
        return any(lever.numerics is Numerics.STATISTICAL for lever in self.levers)


def compatible(found: Iterable[Candidate]) -> list[Candidate]:
    """The best first, each without what excludes a better one: another setting of it, or an alternative to it. Of the
    levers of loaders, which all save one wait, the best alone: what another one saves shows on top of it."""
    taken: list[Candidate] = []
    for one in sorted(found, key=lambda one: -one.log_gain):
        beside = one.of_loaders and any(other.of_loaders for other in taken)
        if not beside and excludes(one, [title for other in taken for title in other.titles]) is None:
            taken.append(one)
    return taken


def excludes(one: Candidate, titles: Sequence[str]) -> str | None:
    """Of these levers the one beside which this one is not accepted; None where there is none."""
    return next(filter(None, (alternative(title, titles) for title in one.titles)), None)


def stacked(members: Sequence[Candidate]) -> Candidate:
    """All of them as one."""
    return Candidate(
        levers=tuple(lever for one in members for lever in one.levers),
        log_gain=math.fsum(one.log_gain for one in members),
        shown=all(one.shown for one in members),
        afresh=any(one.afresh for one in members),
    )


def rejects(lever: Lever, run: Run, machine: Machine) -> str | None:
    """Why a lever is not worth a trial; None if it is."""
    if run.world_size > 1 and not lever.across_ranks:
        return "It is not tried where several processes train together."
    return lever.rejects(run, machine)


def grouped(
    open_: Sequence[Candidate], *, together: int, nodes: int, most_switched: int = MOST_SWITCHED
) -> list[list[Candidate]]:
    """The next ones, as they can be compared in the same processes: by steps within one, or side by side. The group
    that holds what is worth most comes first. Where nodes would idle, all are next, in groups so small that there is a
    node for each trial group that decides a clear case.

    `together`: processes that may be alive on a node. `nodes`: groups that may be compared at the same time.
    `most_switched`: arms within one process, the base not counted.
    """
    spare = nodes > 1
    likely = [one for one in open_ if spare or one.worth >= _LIKE_THE_BEST * open_[0].worth]
    switched = [one for one in likely if one.switched][:most_switched]
    others = [one for one in likely if not one.switched]
    num_groups = max(1, nodes // CLEAR - bool(switched))
    beside = max(1, min(_MOST_BESIDE, together - 1, math.ceil(len(others) / num_groups) if spare else 8))
    beside_each_other = [others[k * beside : (k + 1) * beside] for k in range(num_groups)]
    return sorted(filter(None, (switched, *beside_each_other)), key=lambda group: -group[0].worth)


class Candidates:
    """Reads from the study what was tried, so it goes on where it stopped. `trial_s`: what a trial takes."""

    def __init__(self, log: StudyLog, trial_s: Callable[[Candidate], float] = lambda one: 1.0) -> None:
        self._log = log
        self._trial_s = trial_s
        self._machine = log.machine

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
        """Where the time goes under the levers accepted so far; the facts are those of the baseline."""
        accepted = [trial for trial in self._trials() if trial.accepted]
        timed = accepted[-1].runs[-1] if accepted and accepted[-1].runs else self._log.study.baseline[0]
        return replace(facts(self._log.study), step_s=timed.step_s, phase_s=timed.phase_s)

    def open(self) -> list[Candidate]:
        """What was not tried and is worth it, what may save most for the time of its trial first."""
        profile = self.profile()
        tried = {key(trial.levers) for trial in self._trials() if not self._is_outdated(trial)}
        found = []
        for lever in self._not_rejected():
            bound_s = self._bound_s(lever, profile)
            if key((lever.spec(),)) not in tried and bound_s >= _LEAST_SHARE * profile.median_step_s():
                one = self._alone(lever, bound_s=bound_s)
                found.append(replace(one, worth=one.bound_s / self._trial_s(one)))
        return sorted(found, key=lambda one: -one.worth)

    def doubtful(self) -> list[Candidate]:
        """Accepted levers that were not left out yet, and of which it is in doubt whether they earn their place: they
        were not shown to gain alone; or others were accepted after them; or their stack brought less than the product
        of what its levers brought alone. Of one lever the confirmation says it."""
        if len(self.stack) == 1:
            return []
        done = {key(trial.levers) for trial in self._log.study.trials if trial.kind == "leave-one-out"}
        left = [self.alone(spec) for spec in self.stack if key((spec,)) not in done]
        accepted = [trial for trial in self._trials() if trial.accepted]
        last = accepted[-1].levers if accepted else ()
        alone = math.fsum(_log_seen(self._trials_of(spec)[0]) for spec in last)
        if alone > math.log(LEAST_GAIN) + math.fsum(map(_log_seen, accepted[-1:])):
            return left
        return [one for one in left if not (one.shown and one.specs[0] in last)]

    def never_shown(self) -> list[Candidate]:
        """Of the doubtful ones those that seemed to gain alone and were not faster by a 95% interval, the least first.
        (What did not even seem to gain may help only together with others.)"""
        seemed = [one for one in self.doubtful() if not one.shown and one.log_gain >= math.log(LEAST_GAIN)]
        faster = [trial.levers for trial in self._trials() if trial.speedup is not None and trial.speedup.low > 1.0]
        return sorted((one for one in seemed if one.specs not in faster), key=lambda one: one.log_gain)

    def is_last(self, one: Candidate) -> bool:
        """Of what was accepted with this lever nothing else is left."""
        together = next(trial.levers for trial in self._trials() if trial.accepted and one.specs[0] in trial.levers)
        return len(together) > 1 and not any(spec in self.stack for spec in together if spec not in one.specs)

    def alone(self, spec: LeverSpec) -> Candidate:
        """One lever, with what its own trials showed at most: nothing, where another one of the loaders was accepted on
        top of it, which may save all that it did. Of many levers that bring nothing one may gain little by chance, and
        a stack hides that: little is not shown yet."""
        own = [] if spec in self._of_loaders()[:-1] else self._trials_of(spec)
        return self._alone(
            levers.from_spec(spec),
            log_gain=max(map(_log_seen, own), default=0.0),
            # It gained certainly more than what counts.
            shown=any(
                self._log.progress(trial, Rule(line=LEAST_GAIN)) is Progress.GAIN
                for trial in own
                if trial.kind == "screening" or trial.accepted
            ),
        )

    def shown(self) -> list[Candidate]:
        """What gained, alone or as a stack, and was neither accepted nor refused as such."""
        return [
            Candidate(
                levers=tuple(map(levers.from_spec, trial.levers)),
                log_gain=_log_whole(trial, self._log.study.total_steps),
                shown=True,
                trial=trial,
                afresh=self._log.several,
            )
            for trial in self._trials()
            if trial.kind == "screening" and not all(map(self._was_accepted, trial.levers))
        ]

    def unjudged(self) -> list[Candidate]:
        """Of that, a stack in place of its levers."""
        gains = self.shown()
        return [one for one in gains if not any(one.key < other.key for other in gains)]

    def undecided(self) -> list[Candidate]:
        """What was a little faster alone, and by more trial groups may be shown to gain, or not to. (Of what was
        compared again, by itself or with others, nothing.)"""
        return [
            self._alone(lever, log_gain=_log_seen(own[0]), trial=own[0])
            for lever in self._not_rejected()
            if len(own := self._trials_of(lever.spec())) == 1
            and _may_gain(own[0], least=1.0)
            and self._is_open(own[0])
            and not self._is_settled(lever)
        ]

    def unshown(self) -> list[Candidate]:
        """Of that what seemed to gain as much as counts."""
        return [one for one in self.undecided() if one.log_gain >= math.log(LEAST_GAIN)]

    def beside_each_other(self) -> list[Candidate]:
        """What is switched, and alone brought nothing and cost nothing that counts, as one: some levers help only
        together. Empty where that is less than two, or was compared already."""
        harmless = [
            self._alone(lever, log_gain=_log_seen(own[-1]))
            for lever in self._not_rejected()
            if (own := self._trials_of(lever.spec()))
            and _may_gain(own[-1], least=1 / LEAST_GAIN)
            and not _may_gain(own[-1])  # its own gain would be taken for theirs
        ]
        one = stacked(compatible(one for one in harmless if one.switched and not one.other_numbers))
        known = any(one.key <= key(trial.levers) for trial in self._trials())
        return [] if known or len(one.levers) < 2 else [replace(one, log_gain=0.0)]

    def is_refused(self, stack: Candidate) -> bool:
        """These were compared as one, or as what is left of one by now, and not accepted."""
        accepted = key(self.stack)
        together = [trial for trial in self._trials() if len(trial.levers) > 1 and trial.kind == "lever"]
        return any(key(trial.levers) - accepted == stack.key for trial in together if not trial.accepted)

    def rejected(self) -> Iterator[Trial]:
        """Levers that were not worth a trial: why."""
        profile = self.profile()
        known = {name for trial in self._log.study.trials for name in _names(trial.levers)}
        known |= {name for one in self.open() for name in one.names}
        for kind in levers.ALL:
            if kind.name in known or not self._wanted(kind.name):
                continue
            lever = next(iter(kind.candidates(profile, self._machine)), None) or kind()
            other = excluding(lever, self.stack, profile)
            share = self._bound_s(lever, profile) / profile.median_step_s()
            reason = (
                rejects(lever, profile, self._machine)
                or (f"It is an alternative to {other}, which was accepted." if other is not None else None)
                or f"It could save {percent(share)} of a step at most."
            )
            yield Trial(levers=({"name": kind.name},), on_top_of=self.stack, scope="none", why=f"Not tried. {reason}")

    def _alone(self, lever: Lever, **known: Any) -> Candidate:
        return Candidate(levers=(lever,), afresh=self._log.several, **known)

    def _is_open(self, trial: Trial) -> bool:
        """It was compared once, and more trial groups may tell."""
        number = len(trial.log_ratios)
        again = self._log.progress(trial, Rule(planned=MOST, earlier=number))
        return number <= PLANNED and again is Progress.GO_ON

    def _was_accepted(self, spec: LeverSpec) -> bool:
        """Also where it is left out since."""
        return any(trial.accepted and spec in trial.levers for trial in self._trials())

    def _is_settled(self, lever: Lever) -> bool:
        """It was accepted, or compared with others in vain, or waits for the gate with them."""
        together = [one for one in self._trials() if len(one.levers) > 1 and lever.spec() in one.levers]
        settled = (one.kind == "screening" or not (one.runs or one.failure) for one in together)
        return self._was_accepted(lever.spec()) or any(settled)

    def _is_outdated(self, trial: Trial) -> bool:
        """It brought nothing if it is of the loaders, else too little to be shown, on top of less, and the step is much
        shorter now."""
        in_vain = trial.kind == "lever" and not (trial.accepted or trial.runs or trial.failure or trial.one_time_s)
        beside = {*_names(trial.on_top_of), *_names(trial.levers)}
        since = [one for one in self._trials() if one.accepted and not set(_names(one.levers)) <= beside]
        shorter = math.fsum(map(_log_seen, since)) >= math.log(MUCH_SHORTER)
        of_loaders = all(levers.by_name(name).scope is Scope.LOADER for name in _names(trial.levers))
        return in_vain and shorter and of_loaders is not _may_gain(trial)

    def _not_rejected(self) -> Iterator[Lever]:
        """What fits the script and the levers accepted so far."""
        profile = self.profile()
        for kind in filter(lambda kind: self._wanted(kind.name), levers.ALL):
            for lever in kind.candidates(profile, self._machine):
                excluded = excluding(lever, self.stack, profile) is not None
                if not excluded and rejects(lever, profile, self._machine) is None:
                    yield lever

    def _bound_s(self, lever: Lever, profile: Run) -> float:
        """What free batches bring was measured in the baseline: levers of loaders have brought a part of it since."""
        left = math.exp(-math.fsum(self.alone(spec).log_gain for spec in self._of_loaders()))
        ceilings = (
            replace(one, speedup=replace(one.speedup, high=left * one.speedup.high)) if one.name == "input" else one
            for one in self._log.study.ceilings
        )
        return lever.saves_at_most_s(profile, tuple(ceilings))

    def _of_loaders(self) -> list[LeverSpec]:
        """Of the accepted levers those of loaders, in order."""
        return [spec for spec in self.stack if levers.by_name(str(spec["name"])).scope is Scope.LOADER]

    def _wanted(self, name: str) -> bool:
        return self._log.options.levers is None or name in self._log.options.levers

    @property
    def tried_names(self) -> set[str]:
        """Of levers that were timed, in some setting, and are not to be timed again as they were."""
        timed = (one for one in self._trials() if one.scope != "none" and not self._is_outdated(one))
        return {name for trial in timed for name in _names(trial.levers)}

    def _trials(self) -> list[Trial]:
        return [trial for trial in self._log.study.trials if trial.kind in ("lever", "screening")]

    def _trials_of(self, spec: LeverSpec) -> list[Trial]:
        """Of it alone."""
        return [trial for trial in self._trials() if trial.levers == (spec,)]


def _names(stack: Stack) -> list[str]:
    return [str(spec["name"]) for spec in stack]


def _log_seen(trial: Trial) -> float:
    return math.log(trial.seen) if trial.seen else 0.0


def _log_whole(trial: Trial, num_steps: int | None) -> float:
    """The same of a whole training of so many steps; None: their number is not known."""
    if not trial.seen or not num_steps or trial.break_even_step is None:
        return _log_seen(trial)
    # What it costs once are the steps' savings up to the break-even one.
    return -math.log(1 / trial.seen + (1 - 1 / trial.seen) * trial.break_even_step / num_steps)


def _may_gain(trial: Trial, *, least: float = LEAST_GAIN) -> bool:
    """With runs of its own it gained, and waits for the gate or was refused; with a cost it gained, and too late."""
    return trial.failure is None and not trial.runs and trial.one_time_s is None and (trial.seen or 0.0) >= least
