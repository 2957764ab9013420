"""One study: baseline, noise, ceilings, trials stacked greedily, each left out once, and the patched copy as the last.

Each stage looks at what the study holds already and does the rest, so a study that was interrupted goes on where it
stopped.
"""

import time
from collections.abc import Callable, Sequence

from hotlap import rules, statistics
from hotlap.levers import Numerics
from hotlap.record import Machine, Noise, Run, State, Study
from hotlap.tune.ceilings import free_input
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court
from hotlap.tune.final import Final, nothing_tried
from hotlap.tune.first_look import Wanted, first_look
from hotlap.tune.options import Observer, Options, Runs
from hotlap.tune.sizes import Sizes
from hotlap.tune.timing import Arm, Timing, log_ratio_within
from hotlap.tune.trials import Trials

# What levers must know beside: each only looks (names of hotlap.probe.watches.ALL, which only the child may import).
_WATCHES = ("switches", "shapes", "modules")

# Heats of two equal things before anything is tried: they give the noise, and the variance that later heats share. With
# four a trial whose outcome is clear needs two heats only (statistics.can_stop).
_CALIBRATIONS = 4

# With time for fewer heats of three processes no lever can be shown to help: noise, trials, and the confirmation.
_FEWEST_HEATS = 6

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
        timing = Timing(self._runs, self._options, sizes)
        court = Court(self._runs, self._options, sizes, desk.study.baseline)
        trials = Trials(desk, timing, court, self._machine)
        several = _why_not_several(desk.study.baseline[0])
        if several is not None:
            desk.warn(several)
            desk.change("result", result=nothing_tried(several))
        elif desk.left_s > _FEWEST_HEATS * timing.estimate_s(3):
            calibrate(desk, timing)
            desk.doing("running the script twice with the same seed")
            court.prepare(Numerics.EXACT)
            desk.change("evidence", baseline=(desk.study.baseline[0], *court.known))
            trials.stack_greedily()
            trials.leave_each_out()
        else:
            desk.warn("The budget was over before anything could be tried; raise --budget.")
            desk.change("result", result=nothing_tried())
        if desk.study.result is None:
            Final(desk, timing, court, trials).confirm()
        desk.change("end", state=State.COMPLETE)
        return desk.study

    def _look(self, desk: Desk) -> Sizes:
        """The script as written, timed: what does each step wait for?"""
        if not desk.study.baseline:
            desk.doing(f"running {self._options.title} as it is")
            run = first_look(desk, self._runs, Wanted(watches=_WATCHES))
            desk.change("baseline", baseline=(run,), machine=self._machine)
            desk.change("findings", findings=rules.check(run, self._machine))
        return Sizes.of(desk.study.baseline[0], self._machine)


def calibrate(desk: Desk, timing: Timing) -> None:
    """Two equal things compared (A/A), and the script with its input for free."""
    if desk.study.noise:
        return
    processes: list[float] = []
    blocks: list[float] = []
    free: list[float] = []
    has_loader = any(loader.trained_on for loader in desk.study.baseline[0].loaders)
    arms = [Arm(), Arm(), *([Arm(free_input=True)] if has_loader else [])]
    for k in range(_CALIBRATIONS):
        if k and _is_late(desk, timing.estimate_s(len(arms))):
            break
        desk.doing(f"comparing the script with itself, to know the noise ({k + 1} of {_CALIBRATIONS})")
        heat = timing.duet((), arms, limit_s=desk.limit_s(timing.estimate_s(len(arms))))
        processes += [ratio for ratio in heat.log_ratios[:1] if ratio is not None]
        free += [ratio for ratio in heat.log_ratios[1:2] if ratio is not None]
        blocks += [ratio for run in heat.runs[:2] if (ratio := log_ratio_within(run)) is not None]
    ceiling = free_input(desk.study.baseline[0], free)
    if ceiling is not None:
        desk.change("ceilings", ceilings=(ceiling,))
    noise = [noise_of("process", processes), noise_of("step", blocks)]
    desk.change("noise", noise=tuple(part for part in noise if part is not None))


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
    return desk.left_s - next_s < _LEAVE * desk.options.budget_s


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
