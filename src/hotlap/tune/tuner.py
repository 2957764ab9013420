"""One study: baseline, noise, ceilings, trials stacked greedily, each left out once, and the patched copy as the last.

Each stage looks at what the study holds already and does the rest, so a study that was interrupted goes on where it
stopped.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hotlap import rules, statistics
from hotlap.levers import BatchSize
from hotlap.record import Ceiling, Machine, Noise, Phase, Run, State, Status, Study
from hotlap.tune.apart import Apart
from hotlap.tune.candidates import Candidates
from hotlap.tune.ceilings import bounds, free_input
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court
from hotlap.tune.final import Final, nothing_tried
from hotlap.tune.first_look import Wanted, first_look
from hotlap.tune.options import Observer, Options, Runs
from hotlap.tune.recipe import Recipes
from hotlap.tune.sizes import Sizes
from hotlap.tune.timing import Arm, Timing, log_ratio_within
from hotlap.tune.trials import Trials
from hotlap.units import duration, factor

# What levers must know beside: each only looks (names of hotlap.probe.watches.ALL, which only the child may import).
_WATCHES = ("switches", "shapes", "modules", "gradients")

# Where steps are long, the first look ends about so long after the first one: the trials need the time more.
_FIRST_LOOK_S = 15.0

# Log-ratios of equal things (A/A) before anything is tried: they give the noise, and the variance that later heats
# share. With four a trial whose outcome is clear needs two heats only (statistics.can_stop). Three equal processes in
# a heat give two of them that are independent (statistics.contrasts), for the price of three starts instead of four.
_RATIOS = 4
_EQUAL = 3

# No lever can be shown to help in less: two heats of one trial, two of the confirmation, each with the script as
# written, and runs for the gate: as written, under the lever, patched.
_FEWEST_DUETS = 4
_FEWEST_EVIDENCE = 3
# A heat of four that takes longer leaves a budget of some minutes too few of them (`Options.long_budget_s`).
_LONG_HEAT_S = 15.0
# Part of the first start that later ones take at best: the first may have read torch from the disk, and in a fresh
# environment compiled it. (15 s there, and 5 s afterwards: the whole budget of five minutes seemed too little.)
_LATER_STARTS = 1 / 3

# Input that takes less of a step cannot bring a gain that counts (record.LEAST_GAIN).
_LEAST_SHARE = 0.02

# Part of the budget that is kept for larger batches, where they are allowed.
_FOR_RECIPES = 0.4

# Most levers bring less than this, each alone: noise that hides it makes a study say little.
_MUCH_NOISE = 1.25

# Knowing the noise must leave this part of the budget for trials.
_LEAVE = 0.6


class Tuner:
    """Runs studies to their end. `now` is a clock in seconds (a fake one in tests)."""

    def __init__(
        self,
        runs: Runs,
        options: Options,
        machine: Machine,
        observer: Observer,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs = runs
        self._options = options
        self._machine = machine
        self._observer = observer
        self._now = now

    def run(self, study: Study) -> Study:
        """Complete `study`.

        Raises:
            ScriptFailed: the script as written fails. NoSteps: it makes no, or too few, training steps.
        """
        desk = Desk(study, self._options, self._observer, now=self._now)
        sizes = self._look(desk)
        runs = Apart(self._runs, desk.warn)
        sizes = self._search(desk, sizes, runs)
        if BatchSize.name in self._options.allow and desk.study.recipe is None:
            desk.aside_s = 0.0
            Recipes(desk, runs, sizes, self._machine).study()
        desk.change("end", state=State.COMPLETE)
        return desk.study

    def _search(self, desk: Desk, sizes: Sizes, runs: Runs) -> Sizes:
        """Levers that leave training as it is. Returns the sizes, with what was learnt of starts."""
        desk.aside_s = _FOR_RECIPES * self._options.budget_s if self._options.allow else 0.0
        timing = Timing(runs, self._options, sizes, now=self._now)
        several = _why_not_several(desk.study.baseline[0])
        if several is not None:
            desk.warn(several)
            desk.change("result", result=nothing_tried(several))
        elif desk.study.trials or desk.left_s > _least_s(desk, sizes):
            calibrate(desk, timing)
            court = Court(runs, self._options, timing.sizes, desk.study.baseline, now=self._now)
            trials = Trials(desk, timing, court, Candidates(desk, self._machine, together=timing.together))
            desk.doing("recording what the script trains on, and with which numbers")
            court.look()
            desk.change("evidence", baseline=(desk.study.baseline[0], *court.known))
            trials.stack_greedily()
            trials.leave_each_out()
            trials.say_what_is_left()
            if desk.study.result is None:
                Final(desk, timing, court, trials).confirm()
        else:
            desk.warn(
                f"What was left of the budget ({duration(max(0.0, desk.left_s))}) is too short to try anything in; "
                "raise --budget."
            )
            desk.change("result", result=nothing_tried())
        return timing.sizes

    def _look(self, desk: Desk) -> Sizes:
        """The script as written, timed: what does each step wait for?"""
        if not desk.study.baseline:
            desk.doing(f"running {self._options.title} as it is")
            run = first_look(desk, self._runs, Wanted(watches=_WATCHES, enough_s=_FIRST_LOOK_S))
            horizon = self._options.horizon or _length(run)
            desk.change("baseline", baseline=(run,), machine=self._machine, horizon=horizon)
            desk.change("findings", findings=rules.check(run, self._machine))
        sizes = Sizes.of(desk.study.baseline[0], self._machine)
        if _at_best(sizes).expected_s(_EQUAL + 1) > _LONG_HEAT_S:
            desk.extend()
        return sizes


def calibrate(desk: Desk, timing: Timing) -> None:
    """Equal things compared (A/A), and the script with its input for free."""
    if desk.study.noise:
        return
    run = desk.study.baseline[0]
    processes: list[float] = []
    blocks: list[float] = []
    free: list[float] = []
    num_equal = _EQUAL if timing.together > _EQUAL else 2
    num_heats = math.ceil(_RATIOS / (num_equal - 1))
    for k in range(num_heats):
        arms = [Arm()] * num_equal
        if not k and _input_matters(run):
            # Once: a bound needs no narrow interval, and the noise comes from the equal ones.
            arms.append(Arm(free_input=True))
        if k and _is_late(desk, timing.estimate_s(len(arms))):
            break
        desk.doing(f"comparing the script with itself, to know the noise ({k + 1} of {num_heats})")
        heat = timing.duet((), arms, limit_s=desk.limit_s(timing.estimate_s(len(arms))))
        equal = heat.log_ratios[: num_equal - 1]
        processes += statistics.contrasts([0.0, *(ratio for ratio in equal if ratio is not None)])
        free += [ratio for ratio in heat.log_ratios[num_equal - 1 :] if ratio is not None]
        blocks += [ratio for run in heat.runs[:num_equal] if (ratio := log_ratio_within(run)) is not None]
    desk.change("ceilings", ceilings=_ceilings(run, free, statistics.pool([processes])))
    timing.settle()
    noise = [noise_of("process", processes), noise_of("step", blocks)]
    desk.change("noise", noise=tuple(part for part in noise if part is not None))
    if noise[0] is not None and noise[0].smallest_gain > _MUCH_NOISE:
        desk.extend()
        desk.warn(
            "Runs of the unchanged script differ so much here that gains below "
            f"{factor(noise[0].smallest_gain)} between processes are hard to show. Most often other programs use the "
            "machine: run it again when they have ended, or raise --budget."
        )


def _input_matters(run: Run) -> bool:
    """It could bring a gain that counts. What a loader in the background costs its neighbours is in no phase."""
    serving = [loader for loader in run.loaders if loader.trained_on]
    share = run.share(Phase.INPUT)
    return any(serving) and (share is None or share >= _LEAST_SHARE or any(one.num_workers for one in serving))


def _ceilings(run: Run, free: Sequence[float], pooled: tuple[float, int] | None) -> tuple[Ceiling, ...]:
    """Highest first: free batches as measured, the others from the phases of the first look."""
    measured = free_input(run, free, pooled=pooled)
    others = [ceiling for ceiling in bounds(run) if measured is None or ceiling.name != measured.name]
    return tuple(sorted([*([measured] if measured else []), *others], key=lambda one: -one.speedup.mid))


def _least_s(desk: Desk, sizes: Sizes) -> float:
    """Without so much time nothing can be shown, even if all goes well."""
    at_best = _at_best(sizes)
    noise_s = 0.0 if desk.study.noise else math.ceil(_RATIOS / (_EQUAL - 1)) * at_best.expected_s(_EQUAL + 1)
    return noise_s + _FEWEST_DUETS * at_best.expected_s(2) + _FEWEST_EVIDENCE * at_best.evidence_s()


def _at_best(sizes: Sizes) -> Sizes:
    """With starts as short as later ones may be."""
    return replace(sizes, setup_s=_LATER_STARTS * sizes.setup_s)


def _length(run: Run) -> int | None:
    """Steps that the training makes; None where it was ended before."""
    return len(run.first_steps_s) + len(run.step_s) if run.status is Status.ENDED else None


def _why_not_several(run: Run) -> str | None:
    """Why levers are not tried in a training by several processes; None for one process."""
    if run.world_size == 1:
        return None
    return (
        f"{run.world_size} processes train together here: hotlap tune shows what their steps wait for, but it tries no "
        "levers in such a training yet. Tune the script as one process, without its launcher; what helps one "
        "process on its own data and layers mostly helps each of them."
    )


def _is_late(desk: Desk, next_s: float) -> bool:
    """One more comparison would take what the trials need."""
    return desk.left_s - next_s < _LEAVE * (desk.options.budget_s - desk.aside_s)


def noise_of(scope: str, log_ratios: Sequence[float]) -> Noise | None:
    """What comparing equal things came to; None where it says nothing."""
    interval = statistics.interval(log_ratios, pooled_variance=None)
    if interval is None:
        return None
    return Noise(
        scope=scope,
        speedup=interval,
        smallest_gain=statistics.smallest_gain(log_ratios, num_processes=4),
        num_processes=len(log_ratios),
        log_ratios=tuple(log_ratios),
    )
