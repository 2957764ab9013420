"""Study -> the sentences and numbers that every format tells, each in one place. Plain text, not yet cleaned."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1, isfinite, sqrt
from statistics import mean
from textwrap import shorten

from hotlap.record import (
    Ceiling,
    Finding,
    Noise,
    Phase,
    Prediction,
    Run,
    Status,
    Study,
    Trial,
    Verdict,
    as_float,
    growth,
    lever_titles,
)
from hotlap.units import duration, factor, percent, plural

LETTERS = {
    Phase.INPUT: "I",
    Phase.TRANSFER: "T",
    Phase.FORWARD: "F",
    Phase.BACKWARD: "B",
    Phase.COMMUNICATION: "C",
    Phase.OPTIMIZER: "O",
    Phase.SYNC: "S",
    Phase.OTHER: "X",
}
"""Phases in the order in which a training loop comes to them, and their letters in pictures."""

# A GAN's step makes six forward passes: three of its networks, and three losses that are modules.
_MANY_FORWARDS = 8

# Characters of an error, which may be pages; all of it is in the JSON. A message of torch says what to do in its second
# line or so.
_A_LINE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePart:
    """What a step spends on one phase, in the mean."""

    phase: Phase
    mean_s: float | None
    """None: it could not be measured."""
    share: float
    """Of the mean step, in [0, 1]; 0 where it could not be measured."""


def script(study: Study) -> str:
    """The command as the user would type it."""
    return _with_input(study, shlex.join(study.command)) or "a command that was not recorded"


def _with_input(study: Study, command: str) -> str:
    return command if study.stdin is None else f"{command} < {shlex.quote(study.stdin)}"


def command_under(study: Study, environment: Mapping[str, str]) -> str | None:
    """The command as a shell takes it, with these variables in front; None without any."""
    if not environment:
        return None
    words = study.command[1:] if study.command[:1] == ("--",) else ("python", *study.command)
    variables = (f"{name}={shlex.quote(value)}" for name, value in environment.items())
    return _with_input(study, " ".join([*variables, shlex.join(words)]))


def timed(study: Study) -> Run | None:
    """The timed run of the baseline."""
    return study.baseline[0] if study.baseline else None


def pictured(study: Study) -> Run | None:
    """The run of the baseline that stands beside the optimized one, where there is one."""
    return study.beside if study.after is not None and study.beside is not None else timed(study)


def phases(run: Run) -> tuple[PhasePart, ...]:
    """The phases of `run` that took any time or could not be measured, in the order of a training loop."""
    means_s = {phase: run.mean_phase_s(phase) for phase in LETTERS if phase in run.phase_s}
    return tuple(
        PhasePart(phase=phase, mean_s=mean_s, share=percent_of(mean_s or 0.0, run.mean_step_s()) / 100)
        for phase, mean_s in means_s.items()
        if mean_s != 0
    )


def percent_of(part: float, whole: float) -> float:
    """Part of the width, in [0, 100]; 0 where that makes no sense. Percent, not pixels, so that a picture fits a phone
    and a wall, and the letters in it are not stretched."""
    share = 100 * part / whole if whole > 0 else 0.0
    return round(min(max(share, 0.0), 100.0), 3) if isfinite(share) else 0.0


def step_sentence(run: Run) -> str:
    """How long a step takes, and where; and whether others used the cores meanwhile."""
    if not run.step_s:
        return "No step was recorded."
    steps = plural(len(run.step_s), "step")
    if run.long is not None and run.long.num_steps > len(run.step_s):
        steps = f"a sample of {steps} from {run.long.num_steps:,}"
    threads = "" if run.num_threads is None else f", {plural(run.num_threads, 'thread')}"
    usual = f"Median step {duration(run.median_step_s())} (mean {duration(run.mean_step_s())})"
    sentence = f"{usual} over {steps} on {run.device}{threads}."
    if len(run.num_forwards) == len(run.step_s) and mean(run.num_forwards) >= _MANY_FORWARDS:
        number = mean(run.num_forwards)
        each_s = duration(run.mean_step_s() / number)
        sentence += f" A step makes {number:,.0f} forward passes in the mean, those of loss modules included: {each_s}"
        sentence += " for each."
    return " ".join(filter(None, (sentence, growth_sentence(run), busy_sentence(run))))


def growth_sentence(run: Run) -> str | None:
    """That steps became longer while they were recorded; None where they did not, or made more forward passes."""
    grown = growth(run, run.step_s)
    each_s = [step_s / max(1, number) for step_s, number in zip(run.step_s, run.num_forwards, strict=False)]
    if grown is None or (len(each_s) == len(run.step_s) and growth(run, each_s) is None):
        return None
    first, last = grown
    return (
        f"Steps grow longer: {duration(first)} in the first eighth of them, {duration(last)} in the last "
        f"({factor(last / first)}), so none of them is typical."
    )


def busy_sentence(run: Run) -> str | None:
    """That others used the cores while steps were timed; None where they did not, or nobody knows."""
    served = run.cpu.served if run.cpu is not None and run.cpu.disturbed else None
    if served is None:
        return None
    return (
        f"The machine was busy: training had a core for {percent(served)} of the time in which it wanted one, so "
        "times are longer here than alone, and calls, Python and arithmetic are told apart less surely."
    )


def failure(run: Run) -> str | None:
    """Why a run is not a complete one; None for a complete run."""
    if run.status is Status.COMPLETE:
        return None
    sentence = (run.error or f"the run did not come to its end: {run.status.value}").rstrip(".")
    if run.exit_code is not None and "exit code" not in sentence:
        sentence += f" (exit code {run.exit_code})"
    return f"{sentence[:1].upper()}{sentence[1:]}."


def loss_sentence(run: Run) -> str:
    """From where to where the losses went, and whether all were numbers."""
    known = [loss for loss in map(as_float, run.loss) if loss is not None]
    finite = [loss for loss in known if isfinite(loss)]
    odd = f"{len(known) - len(finite):,} of {len(known):,} were NaN or infinite"
    if not finite:
        return f"Losses: {odd}." if known else "No loss was seen."
    tenth = max(1, len(finite) // 10)
    ends = f"Loss {mean(finite[:tenth]):.4g} -> {mean(finite[-tenth:]):.4g} (means of the first and last tenth)"
    return f"{ends}; {'all finite' if len(finite) == len(known) else odd}."


def ideal(ceiling: Ceiling) -> str:
    """What costs nothing under it."""
    return _IDEALS.get(ceiling.name, ceiling.name)


_IDEALS = {
    "input": "batches",
    "optimizer": "the optimizer",
    "transfers": "copies to the device",
    "host": "your own Python",
    "launches": "starting operators",
}


def noise_sentence(noise: Noise) -> str:
    """What the A/A test came out as, and what follows."""
    least = noise.smallest_gain
    if noise.scope == "again":
        spread = sqrt(mean([ratio * ratio for ratio in noise.log_ratios])) if noise.log_ratios else 0.0
        told = f"; a change of less than {small_gain(least)} between two runs says nothing here" if least else ""
        return f"from one run of this script to the next its step differs by about {percent(spread)}{told}"
    compared = f"A/A test {_COMPARED.get(noise.scope, noise.scope)}"
    if noise.speedup is None or least is None:
        seen = " and ".join(percent(expm1(min(abs(ratio), 700.0))) for ratio in noise.log_ratios)
        return f"{compared}: equal runs differed by {seen}, too few to say which gains are noise here"
    hidden = f"gains below {small_gain(least)} cannot be told from noise here"
    return f"{compared}: {noise.speedup.ends}; {hidden} by 4 processes that vary no more than these"


_COMPARED = {"step": "inside one process, step by step", "process": "between processes"}


def small_gain(gain: float) -> str:
    """ "1.034x"; a digit more than speed-ups have where it is close to 1."""
    return f"{gain:.3f}x" if gain < 1.1 else factor(gain)


def begun(study: Study) -> tuple[Trial, ...]:
    """Trials of which at least one process was started."""
    return tuple(trial for trial in study.trials if trial.scope != "none")


def not_applying(study: Study) -> str | None:
    """How many levers do not fit this training, in one line; None where all do."""
    number = len({str(spec.get("name")) for one in study.trials if one.scope == "none" for spec in one.levers})
    if not number:
        return None
    verb = "does" if number == 1 else "do"
    return f"{plural(number, 'lever')} {verb} not apply here: `hotlap levers` says why."


def trial_subject(trial: Trial) -> str:
    """What was tried."""
    if trial.kind == "patch":
        return "the patched script"
    titles = lever_titles(trial.levers)
    return f"with and without {titles}" if trial.kind == "leave-one-out" else titles


def trial_outcome(trial: Trial) -> str:
    """What came of it, in one or two words."""
    if trial.scope == "none":
        return "does not apply"
    words = {
        "screening": ("gained", "gained"),
        "leave-one-out": ("kept", "dropped"),
        "patch": ("confirmed", "not confirmed"),
    }
    yes, no = words.get(trial.kind, ("accepted", "not taken"))
    return yes if trial.accepted else no


def asked_the_gate(trial: Trial) -> bool:
    """Training was compared, or should have been: what was only timed has no run, or waits for its turn."""
    return (
        trial.verdict is not Verdict.UNDECIDED or trial.kind == "patch" or (trial.kind == "lever" and bool(trial.runs))
    )


def trial_why(trial: Trial) -> str:
    """Why, and what it costs once."""
    why = trial.why or "No reason was recorded."
    if trial.failure is not None:
        return shorten(why, _A_LINE, placeholder=" ...")
    if trial.one_time_s is None:
        return why
    cost = f"It costs {duration(trial.one_time_s)} once"
    if trial.break_even_step is not None:
        cost += f", paid back at step {trial.break_even_step:,}"
    return f"{why} {cost}."


def cost_sentence(study: Study) -> str | None:
    """What all accepted levers cost once, and when that has paid; None where nothing was seen to cost time once."""
    result = study.result
    if result is None or not result.levers or result.one_time_s is None or result.break_even_step is None:
        return None
    length = f", and the training makes {study.total_steps:,}" if study.total_steps is not None else ""
    return (
        f"It costs {duration(result.one_time_s)} once, which is paid back at step {result.break_even_step:,}{length}."
    )


def recipe_lines(study: Study) -> tuple[str, ...]:
    """What larger batches came to; nothing where nobody asked."""
    recipe = study.recipe
    if recipe is None:
        return ()
    lines = [
        f"batch size {point.size}: {point.samples_per_s:,.0f} samples a second"
        + (" (yours)" if point.size == recipe.before else "")
        for point in recipe.curve
    ]
    if recipe.accepted and recipe.speedup is not None and recipe.before:
        rates = ", ".join(f"the learning rate of {name} times {rate:.3g}" for name, rate in recipe.rates.items())
        lines.append(
            f"Worth trying: batch size {recipe.size} instead of {recipe.before}, {rates}, and a schedule of steps "
            f"{recipe.size / recipe.before:g} times as short. It reaches the same loss "
            f"{factor(recipe.speedup.mid)} as fast ({recipe.speedup.ends})."
        )
    return (*lines, recipe.why)


def trial_speedup(trial: Trial) -> str:
    """ "1.83x (1.79-1.88x)", what so few processes saw that no interval is shown, or that nothing was timed."""
    if trial.speedup is not None:
        return trial.speedup.told
    if trial.seen is not None:
        how = "clear after" if trial.accepted else "seen in"
        return f"{factor(trial.seen)}, {how} {plural(len(trial.log_ratios), 'process')}"
    return "no timing" if trial.scope != "none" else ""


def prediction_sentence(prediction: Prediction) -> str:
    """A step elsewhere."""
    fits = {True: "", False: "; does not fit into its memory", None: "; whether it fits into memory is not known"}
    step_s = prediction.step_s
    between = f"80% interval {duration(step_s.low)} to {duration(step_s.high)}"
    return f"{duration(step_s.mid)} a step ({between}), bound by {prediction.bound_by}{fits[prediction.fits]}"


def cost_share(finding: Finding) -> str:
    """ "62% of a step"; "93% of all time" where it is spent between steps."""
    return f"{percent(finding.share)} of {'all time' if finding.between_steps else 'a step'}"
