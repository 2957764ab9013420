"""One study without trials: the baseline, where the time of a step goes, and what could be gained at best."""

import math
from dataclasses import replace
from itertools import pairwise

from hotlap.errors import Interrupted, NoSteps, ScriptFailed
from hotlap.experiment import Arm, Design, Executor, Sizes, TrialGroup
from hotlap.experiment.statistics import FEWEST_SHOWN
from hotlap.experiment.sweep import BLOCKS, thread_sweep
from hotlap.experiment.table import mean_step_s
from hotlap.machine import threads
from hotlap.record import NO_OPERATORS, Phase, Plan, Run, State, Status, Study
from hotlap.search import StudyLog
from hotlap.tune.diagnosis import ceilings, diagnosed, input_matters
from hotlap.tune.first_look import FEWEST_STEPS, first_look
from hotlap.tune.noise import noise_of

# Names of the profilers (`hotlap.probe.profilers`, which only the child may import; a test compares the two).
_LOOKING = ("switches", "memory", "shapes", "modules", "gradients", "cpu")
FULL = (*_LOOKING, "indices", "device", "operators", "calls", "syncs", "lines")
"""Those for a training that is to be as it would be without us: what they do for some steps changes no number, no
setting and nothing that the script can see. (See docs/measuring.md for why the others are not made there.)"""
PROFILERS = (*_LOOKING, "what-if", "indices", "device", "operators", "calls", "input", "syncs", "lines")
"""All but the recording of a step for `predict`: what they change or slow down for a while is thrown away with the run.
`tune` asks for the same, or it would know a step by its phases alone, and call compute-bound what is launch-bound. What
settings cost comes first: it is wanted most where steps are long and few. The last may take many steps, and a short
script has few."""

# Rounds of the baseline against itself with free batches.
_ROUNDS = 4
# What the rounds may take beyond the fewest that show an interval, so that measuring stays a matter of minutes.
_ROUNDS_S = 60.0
# A script whose rounds would take longer than this is not run again at all: what its own phases say must do.
_MOST_S = 600.0

# Part of a short script's steps that are recorded when it runs again for the windows; the windows get the others.
_SHORT_SHARE = 4

# Fields of a run that profilers fill.
_PROFILED = (
    "input_s",
    "device_phase_s",
    "hot_lines",
    "sightings",
    "switches",
    "cpu",
    "memory",
    "shapes",
    "calls",
    "what_ifs",
)

# A sweep over numbers of threads tells something where arithmetic on the CPU takes at least this part of the step.
_SWEPT_SHARE = 0.5
# What it may take.
_SWEEP_S = 60.0


def measured(log: StudyLog, plan: Plan, *, sweep: bool = True, repeat: bool = True) -> Study:
    """Complete the study.

    Arguments:
        plan: what is recorded of the baseline.
        sweep: try the step with other numbers of threads, where the CPU's arithmetic is what takes the time.
        repeat: run the script again: for the ceiling of free batches, and to know how far one run differs from the
            next.

    Raises:
        ScriptFailed: the baseline fails. NoSteps: it makes no, or too few, training steps.
    """
    log.doing(f"running {log.options.title} as it is")
    run = _baseline(log, plan)
    alone = trainers(run) == 1
    sizes = Sizes.of(run, log.machine)
    free = _repeat(log, run, log.executor(sizes)) if repeat and alone else []
    log.change("ceilings", ceilings=ceilings(run, free=free))
    if sweep and alone:
        _sweep(log, run, log.executor(replace(sizes, steps=BLOCKS * sizes.block)))
    log.change("end", state=State.COMPLETE)
    return log.study


def trainers(run: Run) -> int:
    """Processes of the command that train without taking turns."""
    return 1 + sum(one.ours for one in (run.cpu.neighbours if run.cpu is not None else ()))


def _baseline(log: StudyLog, plan: Plan) -> Run:
    """Looked at as closely as it can be; of one that the user interrupts, what was measured until then is kept."""
    run = None
    try:
        run = first_look(log, plan)
        if run.status is not Status.COMPLETE:
            run = _with_windows(log, plan, run)
    except Interrupted as interrupted:
        run = run or interrupted.runs[0]
        if run.step_s:
            diagnosed(log, run)
        raise
    diagnosed(log, run)
    return run


def _with_windows(log: StudyLog, plan: Plan, run: Run) -> Run:
    """The script was over before every profiler had its steps: run it again, and record fewer."""
    made = len(run.first_steps_s) + len(run.step_s)
    steps = max(FEWEST_STEPS, made // _SHORT_SHARE)
    # One process alone has recorded no more than was needed before its time was over: it would lapse again.
    again = run.status is Status.ENDED or (run.status is Status.LAPSED and run.world_size > 1)
    # One that saw its end coming has cut the recording short: it has left the profilers as many steps already.
    foreseen = len(run.step_s) < plan.steps and run.operators is not None
    if not plan.profilers or not again or foreseen or steps >= made:
        return run
    log.doing(f"{log.options.title} makes few steps; running it again to look closer")
    shorter = replace(plan, steps=steps, warmup=min(2, plan.warmup), whole_epoch=False)
    try:
        return _completed(run, first_look(log, shorter))
    except (ScriptFailed, NoSteps) as error:
        log.warn(f"What needs steps of its own was not seen: {error}")
        return run


def _repeat(log: StudyLog, run: Run, executor: Executor) -> list[float]:
    """Log-ratios of free batches; the noise between one run and the next is written into the study."""
    with_free = input_matters(run)
    arms = (Arm(), Arm(free_input=True)) if with_free else (Arm(),)
    if FEWEST_SHOWN * executor.estimate_s(len(arms)) > _MOST_S:
        log.warn(
            "The script takes too long to start to be run again: the ceilings rest on its phases alone, and how "
            "far one run differs from the next is not known."
        )
        return []
    trial_groups: list[TrialGroup] = []
    begun = log.now()
    what = "with and without its loader" if with_free else "again, to know how far runs differ"
    for number in range(_ROUNDS):
        if number >= FEWEST_SHOWN and log.now() - begun + executor.estimate_s(len(arms)) > _ROUNDS_S:
            break
        log.doing(f"running {log.options.title} {what} ({number + 1} of {_ROUNDS})")
        trial_groups += executor.trial_groups(Design(arms=arms))
    # One run of the baseline and the next: equal things, at different times.
    means = [mean_step_s(trial_group.runs[0]) for trial_group in trial_groups if not trial_group.base_failed]
    noise = noise_of("again", [math.log(one / other) for one, other in pairwise(means)])
    if noise is not None:
        log.change("noise", noise=(noise,))
    return [ratio for trial_group in trial_groups for ratio in trial_group.outcomes if isinstance(ratio, float)]


def _sweep(log: StudyLog, run: Run, executor: Executor) -> None:
    """The step at other numbers of threads: why are the cores as busy as they are, and would fewer do?"""
    phases = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)
    if run.device != "cpu" or sum(run.share(phase) or 0.0 for phase in phases) < _SWEPT_SHARE:
        return
    counts = threads.counts(log.machine)
    if len(counts) < 2 or executor.estimate_s(len(counts), switched=True) > _SWEEP_S:
        return
    log.doing(f"running {log.options.title} with {', '.join(map(str, counts))} threads in turns")
    found = thread_sweep(executor, counts, log.machine, run)
    if len(found.times) > 1:
        log.change("sweep", sweep=found)


def _completed(run: Run, closer: Run) -> Run:
    """`run` with what only `closer` could see."""
    fields = {name: getattr(closer, name) for name in _PROFILED if not getattr(run, name) and getattr(closer, name)}
    windows = [window for window in (run.operators, closer.operators) if window is not None]
    if windows:
        fields["operators"] = max(windows, key=lambda window: (window.complete, window.num_steps))
        fields["notes"] = tuple(note for note in run.notes if not note.startswith(NO_OPERATORS))
    known = {(one.kind, one.path, one.line, one.what) for one in run.sightings}
    new = tuple(one for one in closer.sightings if (one.kind, one.path, one.line, one.what) not in known)
    return replace(run, **fields | {"sightings": (*run.sightings, *new)})
