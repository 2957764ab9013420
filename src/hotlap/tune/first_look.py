"""The baseline, timed for the first time: is there anything to study, and where does a step's time go?"""

import shlex
import sys
from dataclasses import replace
from math import ceil
from statistics import median

from hotlap.errors import NoSteps, ScriptFailed
from hotlap.record import Plan, Purpose, Run, Status
from hotlap.search import Options, StudyLog
from hotlap.tune.diagnosis import diagnosed
from hotlap.units import duration, plural

# Fewer steps than this cannot be told from chance.
FEWEST_STEPS = 8

# Part of the budget that the first look may take.
_SHARE = 0.25

# So long after the first step the first look may go on beyond its steps, to see an epoch's end: starting workers anew,
# and a validation, come with it. Where it is no end in itself, this part of the budget.
EPOCH_S, _EPOCH_SHARE = 20.0, 0.02

# Where steps are long, and what follows needs the time more, the first look ends about so long after the first step,
# and what is looked at closely behind it takes about as long again; in a short budget this part of it each.
_ENOUGH_S, _ENOUGH_SHARE = 15.0, 0.1

# A short warm-up, for scripts that make few steps.
_SHORT_WARMUP = 2


def enough_s(options: Options) -> float:
    """`Plan.enough_s` of a first look that is no end in itself."""
    return min(_ENOUGH_S, _ENOUGH_SHARE * options.budget_s)


def first_look(log: StudyLog, plan: Plan) -> Run:
    """Time the baseline. `plan`: what is to be recorded of it.

    Raises:
        ScriptFailed, NoSteps: with a sentence that says what happened and what to do.
    """
    options = log.options
    limit_s = max(options.timeout_s + 5.0, _SHARE * options.budget_s)
    limit_s = min(limit_s, options.budget_s)
    patience_s = EPOCH_S if plan.enough_s is None else min(EPOCH_S, _EPOCH_SHARE * options.budget_s)
    plan = replace(plan, whole_epoch_s=patience_s, limit_s=limit_s)
    (run,) = log.runs([plan], limit_s=limit_s)
    thrown = min(plan.warmup, len(run.first_steps_s))
    few = len(run.step_s) < thrown and plan.warmup <= thrown + len(run.step_s) + FEWEST_STEPS
    if few and run.status in (Status.ENDED, Status.LAPSED):
        # A short script, or a slow one: throw away less.
        log.doing(f"{options.title} makes few steps; running it again with a shorter warm-up")
        (run,) = log.runs([replace(plan, warmup=min(_SHORT_WARMUP, plan.warmup))], limit_s=limit_s)
    try:
        run = _usable(run, options)
    except (ScriptFailed, NoSteps):
        if run.step_s and run.status is not Status.ENDED and log.study.purpose is Purpose.MEASURE:
            diagnosed(log, run)
        raise
    if run.trains_again is not None and run.status is not Status.ENDED:
        log.warn(
            f"{options.title} trains in several parts, the next from {run.trains_again} on: times, gains and what the "
            "gate says are of the steps that were looked at, which are the first."
        )
    return run


def _usable(run: Run, options: Options) -> Run:
    """The run, if it can be studied.

    Raises:
        ScriptFailed, NoSteps: with a sentence that says what happened and what to do.
    """
    made = len(run.first_steps_s) + len(run.step_s)
    title = options.title
    if run.status in (Status.CRASHED, Status.KILLED):
        raise ScriptFailed(_crash_sentence(run, options, made), output=run.output)
    if made == 0 or run.status is Status.HUNG:
        raise NoSteps(_no_step_sentence(run, options), output=run.output)
    if len(run.step_s) < FEWEST_STEPS:
        took_s, needed = median([*run.first_steps_s, *run.step_s]), FEWEST_STEPS + _SHORT_WARMUP
        advice = "Let it train longer."
        if run.status is not Status.ENDED:
            # `hotlap tune` lets the first look have a part of the budget.
            needed_s = ((run.setup_s or 0.0) + needed * took_s) / (_SHARE if options.has_budget else 1.0)
            advice = f"Raise {_to_raise(options)} to {ceil(needed_s / 60)}m, or make its steps shorter."
        raise NoSteps(
            f"{title} made only {plural(made, 'training step')}, of {duration(took_s)} each; at least {needed} are "
            f"needed to measure one. {advice}",
            output=run.output,
        )
    return run


def _to_raise(options: Options) -> str:
    return "--budget" if options.has_budget else "--timeout"


def _crash_sentence(run: Run, options: Options, made: int) -> str:
    program, *words = options.command
    command = shlex.join(["python" if program == sys.executable else program, *words])
    command += " < answers.txt" if "EOFError" in run.output else ""
    least = "at least " if run.step_s else ""  # once what was asked for is recorded, steps go on uncounted
    where = f" after {least}{plural(made, 'training step')}" if made else " before its first training step"
    if run.status is Status.KILLED and (made or "training step" in (run.error or "")):
        where = ""  # the error says so, of steps that were looked at closely as well, and of those that left no record
    sentence = f"{options.title} failed{where}: {(run.error or 'no reason recorded').rstrip('.')}."
    if "EOFError" in run.output:
        sentence += (
            " It reads standard input, and hotlap runs it several times: give it a file, as in "
            f"`hotlap tune {options.title} < answers.txt`."
        )
    return f"{sentence} See that `{command}` runs by itself, then try again."


def _no_step_sentence(run: Run, options: Options) -> str:
    title = options.title
    if run.status is Status.SILENT:
        return f"{title} ended without a training step: {run.error}."
    if run.status is Status.LAPSED:
        return f"The steps of {title} are too long: {run.error}. Make them shorter, or raise {_to_raise(options)}."
    if run.status is Status.HUNG:
        waited = min(options.timeout_s, options.budget_s)
        return (
            f"{title} was ended: {run.error or 'it made no training step in time'} ({waited:.0f} s). If it builds a "
            "data set or loads a model first, or does other long work between its steps, raise --timeout (and "
            "--budget); if it trains without torch's autograd, hotlap cannot see its steps."
        )
    return (
        f"{title} ended without a training step: no optimizer stepped and nothing was propagated backward. "
        "Give hotlap the script (and arguments) that trains; one that goes on from the checkpoint of a training that "
        "is over makes no step."
    )
