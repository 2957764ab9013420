"""A study under way: what the user asked, what is known, its seconds, what makes its runs, and who is told of it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from hotlap.experiment import EditedScript, Effect, Executor, Runs, Sizes, Stack
from hotlap.experiment.statistics import Pool, Progress, Rule, pool
from hotlap.experiment.total import Length
from hotlap.record import Machine, Plan, Run, Study, Trial
from hotlap.units import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a study may do."""

    command: tuple[str, ...]
    """What is started, word by word."""
    cwd: str
    title: str
    """What messages call it: "train.py"."""
    budget_s: float = 300.0
    long_budget_s: float | None = None
    """What it becomes where steps or starts are long, or runs differ much; None: it stays as it is."""
    timeout_s: float = 120.0
    """A run that makes no step for so long is given up."""
    levers: tuple[str, ...] | None = None
    """Names of the levers to try; None: all."""
    allow: tuple[str, ...] = ()
    """Names of levers that change the training itself, and may be tried all the same."""
    seed: int = 0
    total_steps: int | None = None
    """Steps that the user's training makes; None: its own length, where the study sees its end."""
    memory_bytes: int | None = None
    """What caches, batches made ahead and workers may take; None: 80% of what is free."""
    has_budget: bool = True
    """The user sets the budget. Else only `--timeout` gives a run more time."""

    @property
    def plan(self) -> Plan:
        """The baseline; how long, and under what, is for others to fill in."""
        return Plan(command=self.command, cwd=self.cwd, out="", seed=self.seed)


class Observer(Protocol):
    """Told of everything as it becomes known; saves it, shows it."""

    def doing(self, text: str) -> None:
        """What is being done now, a few words."""
        ...

    def changed(self, study: Study, part: str) -> None:
        """`part` of the study is known now: "baseline", "findings", "ceilings", "noise", "trial", "result"."""
        ...


Key = frozenset[tuple[tuple[str, object], ...]]


def key(stack: Stack) -> Key:
    """To know a set of levers again, settings included."""
    return frozenset(tuple(sorted(spec.items())) for spec in stack)


class Budget:
    """The seconds of a study: how many there are, how many are spent, and whether there may be more.

    `longer_s`: what the total may become; None: it stays as it is. `spent_s`: by earlier parts of an interrupted
    study. `now`: a clock in seconds (a fake one in tests)."""

    def __init__(
        self,
        total_s: float,
        *,
        longer_s: float | None = None,
        spent_s: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total_s = total_s
        self.later_s = 0.0
        """Part of the total that belongs to a stage to come."""
        self._longer_s = longer_s or total_s
        self._now = now
        self._begun = now() - spent_s

    @property
    def spent_s(self) -> float:
        """Earlier parts of an interrupted study included."""
        return self._now() - self._begun

    @property
    def left_s(self) -> float:
        """For the stage that has its turn."""
        return self.total_s - self.spent_s - self.later_s

    @property
    def extension_s(self) -> float:
        """Seconds that `extend` would add."""
        return max(0.0, self._longer_s - self.total_s)

    def extend(self, needs_s: float = math.inf) -> bool:
        """True if there is more time now than before: as much as `needs_s` takes, where there may be so much."""
        more_s = min(self.extension_s, max(0.0, needs_s - self.left_s))
        self.total_s += more_s
        return more_s > 0

    def affords(self, first_s: float, then_s: float = 0.0, *, keep_s: float = 0.0) -> bool:
        """`first_s` can be spent now and leave `keep_s`, and `then_s` as well, if need be of the longer budget."""
        left_s = self.left_s - keep_s
        return left_s >= first_s and left_s + self.extension_s >= first_s + then_s

    def limit_s(self, estimate_s: float) -> float:
        """What a trial group may take before it is cut short: three times what it should, and not more than what is
        left; but twice what it should in any case. (What is cut short has cost its time and says nothing: the last
        trial group of a confirmation that had seen 2.70x three times was, on an H100.)"""
        return max(20.0, 2 * estimate_s, min(3 * estimate_s + 60.0, self.left_s + 20.0))


class StudyLog:
    """Shared by the stages of a study. `now` is a clock in seconds (a fake one in tests)."""

    def __init__(
        self,
        study: Study,
        options: Options,
        machine: Machine,
        runs: Runs,
        observer: Observer,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.study = study
        self.options = options
        self.machine = machine
        self.runs = runs
        self.script = EditedScript(lambda: facts(self.study), cwd=options.cwd)
        self.now = now
        self.budget = Budget(options.budget_s, longer_s=options.long_budget_s, spent_s=study.elapsed_s, now=now)
        self._observer = observer

    @property
    def several(self) -> bool:
        """Several processes train together."""
        return self.study.baseline[0].world_size > 1

    @property
    def length(self) -> Length:
        """Of the user's training."""
        return Length(self.study.total_steps, facts(self.study).epoch_steps())

    def executor(self, sizes: Sizes, *, limit: Callable[[float], float] | None = None) -> Executor:
        """What compares within this study. `limit`: as an `Executor` has it; None: the budget's."""
        return Executor(
            self.runs,
            self.options.plan,
            sizes,
            script=self.script,
            last_seed=max((seed for trial in self.study.trials for seed in trial.order_seeds), default=0),
            limit=limit or self.budget.limit_s,
            warn=self.warn,
            now=self.now,
        )

    def change(self, part: str, **fields: object) -> None:
        """The study knows more now."""
        self.study = replace(self.study, elapsed_s=self.budget.spent_s, **fields)  # type: ignore[arg-type]
        self._observer.changed(self.study, part)

    def trial(
        self, effect: Effect, *, levers: Stack, on_top_of: Stack = (), kind: str = "lever", scope: str = "process"
    ) -> Trial:
        """What a comparison came to, as a trial; what it means is for others to fill in."""
        return Trial(
            levers=levers,
            on_top_of=on_top_of,
            kind=kind,
            scope=scope,
            speedup=effect.speedup,
            log_ratios=tuple(effect.log_ratios),
            order_seeds=tuple(run.order_seed for _, run in effect.runs),
            failure=effect.failure.kind if effect.failure else None,
        )

    def add(self, trial: Trial) -> None:
        """One thing was tried. What became of a gain takes the place of its screening, and what goes on from an earlier
        comparison that of the earlier one."""
        others = [one for one in self.study.trials if not _is_in(one, trial)]
        self.change("trial", trials=(*others, trial))

    def extend(self, needs_s: float = math.inf) -> bool:
        """The study is one that needs a longer budget, where the user left the choice to us: True if it has it now and
        had not before. `needs_s`: seconds that are to be left; all that there may be by default."""
        if not self.budget.extend(needs_s):
            return False
        self.change("budget", budget_s=self.budget.total_s)
        self.doing(f"taking up to {duration(self.budget.total_s)}, as comparisons need it here; --budget sets it")
        return True

    def progress(self, trial: Trial, rule: Rule) -> Progress:
        """Where the comparison of this trial stands by a rule."""
        return rule.progress(trial.log_ratios, self.pooled(trial.scope, without=trial))

    def doing(self, text: str) -> None:
        """What is being done now, a few words."""
        self._observer.doing(text)

    def warn(self, sentence: str) -> None:
        """Something that the reader must know; said once."""
        if sentence not in self.study.warnings:
            self.change("warnings", warnings=(*self.study.warnings, sentence))

    def pooled(self, scope: str, *, without: Trial | None = None) -> Pool | None:
        """Variance of all comparisons of this scope so far, those of equal things included, and `without` left out: its
        own spread must not count twice. Where steps are so long that blocks of one process do not tell their noise,
        that between processes stands in for it: it holds that of blocks."""
        known = {noise.scope for noise in self.study.noise}
        of_equal = "process" if scope == "step" and scope not in known else scope
        groups = [noise.log_ratios for noise in self.study.noise if noise.scope == of_equal]
        groups += [trial.log_ratios for trial in self.study.trials if trial.scope == scope and trial is not without]
        return pool(groups)


def _is_in(earlier: Trial, trial: Trial) -> bool:
    known = earlier.kind == "screening" or trial.log_ratios[: len(earlier.log_ratios)] == earlier.log_ratios
    both_are = all(one.kind in ("screening", "lever") and one.scope != "none" for one in (earlier, trial))
    return both_are and known and key(earlier.levers) == key(trial.levers)


_LOOKED_AT = ("switches", "shapes", "sightings", "operators", "input_s", "cpu")
"""What a run with evidence is made without profilers for."""


def facts(study: Study) -> Run:
    """The baseline, with all that was found out about its loaders, and what the first look watched for."""
    first = study.baseline[0]
    run = next((run for run in study.baseline if run.batch_digest is not None), first)
    known = {site.calls for site in run.call_sites}
    watched = tuple(site for site in first.call_sites if site.calls not in known)
    return replace(
        run,
        **{name: getattr(first, name) for name in _LOOKED_AT},
        call_sites=(*run.call_sites, *watched),
    )
