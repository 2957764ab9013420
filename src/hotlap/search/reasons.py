"""Why a trial, or a study without a lever, came to what it did: in words for people."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from hotlap import levers
from hotlap.experiment import Effect, Rule, Stack
from hotlap.experiment.statistics import FALSE_GAIN, FEWEST_SHOWN, Progress
from hotlap.levers.native import NativeStep
from hotlap.levers.threads import Threads
from hotlap.machine import threads
from hotlap.record import LEAST_GAIN, Interval, Result, Run, Trial, Verdict, lever_titles
from hotlap.search.candidates import Candidate, Candidates, stacked
from hotlap.search.study_log import Key, StudyLog, key
from hotlap.units import factor, plural

SEEMS_MUCH = 1.25
"""A gain of which is told though it could not be shown: most levers bring less (as in `tune.noise`)."""

_NONE_WORTH_IT = "No lever was worth a trial here: nothing is changed."
_NONE_HELD = "No lever that was tried showed a gain above the noise and left training unharmed: nothing is changed."
_TIME_OVER = (
    "No lever was tried: with a start-up and steps as long as here, what was left of the budget was too short to "
    "compare even one"
)
_NOT_ALL = "Not all levers were compared for long enough to tell, and none showed a gain; raise --budget."


def left_out(trial: Trial, then: str) -> str:
    """What a lever that was left out once brings, and what became of it."""
    brings = f"it brings {factor(trial.seen)} on top of the others" if trial.seen else "nothing could be measured"
    return f"Left out once: {brings}; {then}."


def crowded(run: Run, stack: Stack) -> str | None:
    """That levers by which fewer threads are used may save no more than what others cost this baseline; None where
    there is none of them, or others cost it little."""
    named = [one.name for one in map(levers.from_spec, stack) if isinstance(one, Threads | NativeStep)]
    return threads.crowded(run, " + ".join(named)) if named else None


NOT_LEFT_OUT = (
    "The budget was over before training was timed without each accepted lever in turn, so one of them may bring "
    "nothing; raise --budget."
)
"""Where the time is over before each lever was left out once."""

NEVER_SHOWN = "It gained only with others, and the time was over before training was timed without it; it goes."
"""Of a lever that was accepted with others, and never shown to bring anything itself."""

GAINED = "Faster; the gate judges it as one with what else gained."
"""What is known of a gain at first, and of a lever that was stacked."""


def excluded(names: Sequence[str], other: str) -> str:
    """It gained, and `other` was accepted."""
    name = other.partition(" ")[0]
    what = f"another setting of {name}" if name in names else f"{other}, to which it is an alternative,"
    return f"Faster, but {what} was accepted; so training was not compared."


def length(num_steps: int | None) -> str:
    """What total times are of."""
    return "a long training" if num_steps is None else f"a whole training of {num_steps:,} steps"


def no_shorter(num_steps: int | None) -> str:
    """What a shorter typical step comes to where a start, starts of epochs or slow steps take as much longer."""
    return f"{length(num_steps)} takes no less time with it: its start, starts of epochs and slow steps count"


def why_not_judged(effect: Effect, late: str | None) -> str:
    """Why training under it was not compared. `late`: why a whole training gains nothing by it."""
    if effect.gained and late is not None:
        return f"Faster, but {late}; so training was not compared."
    if effect.failure is not None:
        return f"It could not be tried: {effect.failure.why.removeprefix(f'{lever_titles(effect.arm.levers)}: ')}."
    processes = plural(len(effect.log_ratios), "process")
    if effect.progress is Progress.NO_GAIN:
        return f"No gain of {factor(LEAST_GAIN)} in {processes}, so training was not compared."
    if effect.progress is Progress.GO_ON:
        return f"The time was over after {processes}, before a gain could be shown."
    sure = f"{1 - FALSE_GAIN:.1%}"
    return (
        f"A gain above {factor(LEAST_GAIN)} could not be shown in {processes} with the certainty of {sure} that a "
        "claim needs; training was not compared."
    )


def with_earlier(trial: Trial, why: str, *, stack: Stack) -> str:
    """`why` a lever gains nothing on top of `stack`, beside what it gained in an earlier trial on top of less."""
    since = ", ".join(str(spec["name"]) for spec in stack if spec not in trial.on_top_of)
    if not trial.seen or not since:
        return why
    return f"{factor(trial.seen)} without {since}; with that: {why[0].lower()}{why[1:]}"


def not_reached(candidates: Candidates) -> str | None:
    """What there was no time to try, or to try again; None where that is nothing."""
    tried = candidates.tried_names
    untried = {
        name: f"other settings of {name}" if name in tried else name for o in candidates.open() for name in o.names
    }
    unshown = dict.fromkeys(name for one in candidates.unshown() for name in one.names)
    again = [name for name in unshown if name not in untried]
    told = [f"{', '.join(untried.values())} could be tried"] if untried else []
    told += [f"{', '.join(again)} could be tried again, by more processes"] if again else []
    return f"The budget was too short for all: {', and '.join(told)}; raise --budget to try more." if told else None


def unchanged(why: str, verdict: Verdict = Verdict.UNDECIDED, *, needs_s: float | None = None) -> Result:
    """The script stays as it is. `needs_s`: as `Result.needs_s`."""
    one = Interval(low=1.0, mid=1.0, high=1.0)
    return Result(levers=(), speedup=one, verdict=verdict, why=why, needs_s=needs_s)


def _minutes(needs_s: float) -> str:
    """As `--budget` takes it."""
    return f"{math.ceil(needs_s / 60)}m"


def not_gated(gains: Sequence[Candidate], num_steps: int | None) -> str:
    """They gained, and there was no time for their gate and the end of the study. `num_steps`: of the whole training;
    None: not known."""
    *first, last = [f"{one.title} gained {_gained(one, num_steps)}" for one in gains]
    gained, under = (f"{', '.join(first)} and {last}", "each") if first else (last, "it")
    return (
        f"{gained}, but what was left of the budget was too short to check that training stays the same under {under}, "
        "and to confirm the patched script."
    )


def _gained(one: Candidate, num_steps: int | None) -> str:
    """A step, as the line of its trial has it, and the whole training where something is paid once."""
    assert one.trial is not None and one.trial.seen is not None, "it was compared"
    step = f"{factor(one.trial.seen)} a step"
    if num_steps is None or one.trial.break_even_step is None:
        return step
    return f"{step} ({factor(math.exp(one.log_gain))} for {length(num_steps)}, one-time cost included)"


def in_vain(gains: Sequence[Candidate], num_steps: int | None, *, needs_s: float) -> str:
    """What gained and was not judged, with the budget that this takes."""
    return f"{not_gated(gains, num_steps)} That takes --budget {_minutes(needs_s)} or more."


def without_levers(log: StudyLog, candidates: Candidates, *, needs_s: Callable[[Sequence[Candidate]], float]) -> Result:
    """What a search without an accepted lever comes to. `needs_s`: the budget that takes one of these to its end."""
    trials = [trial for trial in log.study.trials if trial.scope != "none"]
    gains = candidates.unjudged()
    if gains:
        gate_s = needs_s(gains)
        return unchanged(in_vain(gains, log.study.total_steps, needs_s=gate_s), needs_s=gate_s)
    best = sighting(log, trials)
    if best is not None:
        # What four processes could not show takes many more of them.
        least_s = 2 * log.budget.total_s if len(best.log_ratios) > FEWEST_SHOWN else 0.0
        proof_s = max(least_s, needs_s([stacked(list(map(candidates.alone, best.levers)))]))
        return unchanged(seemed(best, log.study.baseline[0], needs_s=proof_s), needs_s=proof_s)
    if trials:
        decided = {key(trial.levers) for trial in trials if is_decided(log, trial)}
        if not candidates.open() and all(key(trial.levers) in decided for trial in trials):
            return unchanged(_NONE_HELD, Verdict.UNHARMED)
        return unchanged(_NOT_ALL)
    if not candidates.open():
        return unchanged(_NONE_WORTH_IT, Verdict.UNHARMED)
    trial_s = needs_s(candidates.open())
    return unchanged(f"{_TIME_OVER}; raise --budget to {_minutes(trial_s)}.", needs_s=trial_s)


def is_decided(log: StudyLog, trial: Trial) -> bool:
    """It is known whether it gains: time was not over before."""
    return trial.failure is not None or bool(trial.runs) or log.progress(trial, Rule()) is not Progress.GO_ON


def sighting(log: StudyLog, trials: list[Trial]) -> Trial | None:
    """What seemed to gain much, and could not be shown to, with all that its trials saw; None where nothing did."""
    settled = [trial for trial in trials if trial.failure is not None or trial.runs]
    settled += [trial for trial in trials if log.progress(trial, Rule()) is Progress.NO_GAIN]
    doubtful: dict[Key, Trial] = {}
    for trial in trials:
        levers = key(trial.levers)
        if not any(levers <= key(other.levers) for other in settled):
            earlier = doubtful[levers].log_ratios if levers in doubtful else ()
            doubtful[levers] = replace(trial, log_ratios=(*earlier, *trial.log_ratios))
    best = max(doubtful.values(), key=lambda trial: trial.seen or 0.0, default=None)
    return best if best is not None and (best.seen or 0.0) >= SEEMS_MUCH else None


def seemed(best: Trial, baseline: Run, *, needs_s: float) -> str:
    """A sighting, with the budget that may tell what it is: without its ratio where the machine was busy and processes
    were few, for that may be any number."""
    name, processes = lever_titles(best.levers), plural(len(best.log_ratios), "process")
    busy = baseline.cpu is not None and baseline.cpu.disturbed
    told = f"{name} seemed to make a step {factor(best.seen or 0.0)} as fast in {processes}"
    if busy and len(best.log_ratios) < FEWEST_SHOWN:
        told = f"{name} may make a step faster, but what {processes} saw on a busy machine does not tell by how much"
    elif busy:
        told = f"{told} while the machine was busy"
    return (
        f"{told}: too few to show it on this machine, and training was not compared; --budget {_minutes(needs_s)} may "
        "show it."
    )
