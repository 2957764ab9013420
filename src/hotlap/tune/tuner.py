"""One study: baseline, noise, ceilings, trials stacked greedily, each left out once, and the patched copy as the last.

Each stage looks at what the study holds already and does the rest, so a study that was interrupted goes on where it
stopped.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from hotlap import rules, statistics
from hotlap.errors import NoSteps, ScriptFailed
from hotlap.levers import Numerics
from hotlap.record import Ceiling, Machine, Noise, Plan, Run, State, Status, Study
from hotlap.tune.desk import Desk
from hotlap.tune.evidence import Court
from hotlap.tune.final import Final, nothing_tried
from hotlap.tune.options import Observer, Options, Runs
from hotlap.tune.sizes import Sizes
from hotlap.tune.timing import Arm, Timing, log_ratio_within
from hotlap.tune.trials import Trials

# Fewer steps than this cannot be told from chance.
_FEWEST_STEPS = 8

# Steps of the first look.
_FIRST_STEPS, _FIRST_WARMUP = 200, 20

# What levers must know beside: each only looks (names of hotlap.probe.watches.ALL, which only the child may import).
_WATCHES = ("switches", "shapes", "modules")

# Part of the budget that the first look may take.
_FIRST_SHARE = 0.25

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
        if desk.left_s > _FEWEST_HEATS * timing.estimate_s(3):
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
            run = first_look(desk, self._runs)
            desk.change("baseline", baseline=(run,), machine=self._machine)
            desk.change("findings", findings=rules.check(run))
        return Sizes.of(desk.study.baseline[0], self._machine)


def first_look(desk: Desk, runs: Runs) -> Run:
    """Time the script as written.

    Raises:
        ScriptFailed, NoSteps: with a sentence that says what happened and what to do.
    """
    options = desk.options
    plan = Plan(
        command=options.command,
        cwd=options.cwd,
        out="",
        steps=_FIRST_STEPS,
        warmup=_FIRST_WARMUP,
        watches=_WATCHES,
        seed=options.seed,
    )
    limit_s = max(options.timeout_s + 5.0, _FIRST_SHARE * options.budget_s)
    limit_s = min(limit_s, options.budget_s)
    (run,) = runs([plan], limit_s=limit_s)
    made = len(run.first_steps_s) + len(run.step_s)
    if run.status in (Status.ENDED, Status.LAPSED) and len(run.step_s) < _FIRST_WARMUP <= made + _FEWEST_STEPS:
        # A short script, or a slow one: throw away less.
        desk.doing(f"{options.title} makes few steps; running it again with a shorter warm-up")
        (run,) = runs([replace(plan, warmup=2)], limit_s=limit_s)
    return _usable(run, options)


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
    _note_ceiling(desk, free)
    noise = [_noise("process", processes), _noise("step", blocks)]
    desk.change("noise", noise=tuple(part for part in noise if part is not None))


def _is_late(desk: Desk, next_s: float) -> bool:
    """One more comparison would take what the trials need."""
    return desk.left_s - next_s < _LEAVE * desk.options.budget_s


def _note_ceiling(desk: Desk, log_ratios: list[float]) -> None:
    interval = statistics.interval(log_ratios, pooled_variance=None) if len(log_ratios) > 1 else None
    if interval is None:
        return
    step_s = desk.study.baseline[0].step_s
    ceiling = Ceiling(
        name="input",
        idealised="batches replayed from memory instead of loaded",
        step_s=sum(step_s) / len(step_s) / interval.mid,
        speedup=interval,
    )
    desk.change("ceilings", ceilings=(ceiling,))


def _noise(scope: str, log_ratios: list[float]) -> Noise | None:
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


def _usable(run: Run, options: Options) -> Run:
    """The run, if it can be studied.

    Raises:
        ScriptFailed, NoSteps: with a sentence that says what happened and what to do.
    """
    made = len(run.first_steps_s) + len(run.step_s)
    title = options.title
    if run.status in (Status.CRASHED, Status.KILLED):
        raise ScriptFailed(_crash_sentence(run, title, made), output=run.output)
    if made == 0:
        raise NoSteps(_no_step_sentence(run, options), output=run.output)
    if len(run.step_s) < _FEWEST_STEPS:
        raise NoSteps(
            f"{title} made only {made} training steps; at least {_FEWEST_STEPS + 2} are needed to measure one. "
            "Let it train longer, or raise --budget if its steps are long.",
            output=run.output,
        )
    return run


def _crash_sentence(run: Run, title: str, made: int) -> str:
    where = f"after {made} training steps" if made else "before its first training step"
    sentence = f"{title} failed {where}: {run.error}."
    if "EOFError" in run.output:
        sentence += (
            " It reads standard input, and hotlap runs it several times: give it a file, as in "
            "`hotlap tune train.py < answers.txt`."
        )
    return sentence + " Mend the script so that it runs by itself, then tune it."


def _no_step_sentence(run: Run, options: Options) -> str:
    title = options.title
    if run.status is Status.SILENT:
        return f"{title} ended without a training step: {run.error}."
    if run.status in (Status.HUNG, Status.LAPSED):
        waited = min(options.timeout_s, options.budget_s)
        return (
            f"{title} made no training step in {waited:.0f} s. If it builds a data set or loads a model first, raise "
            "--timeout (and --budget); if it trains without torch's autograd, hotlap cannot see its steps."
        )
    return (
        f"{title} ended without a training step: no optimizer stepped and nothing was propagated backward. "
        "Give hotlap the script (and arguments) that trains."
    )
