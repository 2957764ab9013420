"""Study -> what it comes to: a gain, none, harm, nothing yet; and what that means for its patch."""

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, isfinite

from hotlap.record import (
    Interval,
    LeverSpec,
    Purpose,
    Run,
    State,
    Status,
    Study,
    Trial,
    Verdict,
    lever_title,
    lever_titles,
)
from hotlap.report.story import command_under, cost_sentence, cost_share, script, small_gain, timed
from hotlap.units import duration, factor, percent, plural


class Outcome(StrEnum):
    """What a study comes to, for its head line."""

    GAIN = "gain"
    NO_GAIN = "no gain"
    HARM = "harm"
    UNPROVEN = "unproven"
    UNTRIED = "untried"
    UNFINISHED = "unfinished"
    MEASURED = "measured"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The study in a few words and one honest sentence."""

    outcome: Outcome
    title: str
    sentence: str


def accepted(study: Study) -> tuple[LeverSpec, ...]:
    """The levers that hold: those of the result, or before there is one, those accepted so far."""
    if study.result is not None:
        return study.result.levers
    left_out = (trial for trial in study.trials if trial.kind == "leave-one-out" and not trial.accepted)
    dropped = [spec for trial in left_out for spec in trial.levers]
    taken = [spec for trial in study.trials if trial.kind == "lever" and trial.accepted for spec in trial.levers]
    return tuple(spec for spec in taken if spec not in dropped)


def is_tuned(study: Study) -> bool:
    """Levers were to be tried: there is something to say about trials, a verdict and a patch."""
    return study.purpose is Purpose.TUNE


def nothing_known(study: Study) -> bool:
    """True if no step was recorded and nothing else came about either: the sections would all say so."""
    measured = any(run.step_s for run in study.baseline)
    return not (measured or study.trials or study.result or study.patch or study.findings or study.ceilings)


def conclusion(study: Study) -> Conclusion:
    """What the study comes to."""
    if study.result is not None and study.result.levers:
        return _concluded(study)
    run = timed(study)
    if run is not None and not run.step_s and run.status is not Status.COMPLETE:
        sentence = "The script did not come to a step that could be measured, so nothing else is known."
        return Conclusion(outcome=Outcome.FAILED, title="Not measured", sentence=sentence)
    if run is not None and run.step_s and not is_tuned(study):
        return _measured(study, run)
    if study.state is State.COMPLETE:
        if study.result is not None and not _tried(study) and study.result.verdict is Verdict.UNDECIDED:
            return Conclusion(outcome=Outcome.UNTRIED, title="Nothing tried", sentence=study.result.why)
        return _not_held(study) or _no_gain(study)
    return Conclusion(outcome=Outcome.UNFINISHED, title="No result yet", sentence=_unfinished(study))


def _measured(study: Study, run: Run) -> Conclusion:
    """What a study without trials tells."""
    first = study.findings[:3]
    alike = not any(one.between_steps for one in first)
    shares = ((one, percent(one.share) if alike else cost_share(one)) for one in first)
    costs = ", ".join(f"{one.code} ({'up to ' if one.advice else ''}{share})" for one, share in shares)
    begin = "Of each step, costliest first" if alike else "Costliest first"
    sentence = f"{begin}: {costs}." if costs else "No rule found a bottleneck."
    if study.state is State.INTERRUPTED:
        sentence += " The study was stopped before its end."
    if run.status in (Status.CRASHED, Status.KILLED) and run.error:
        sentence += f" This is what was measured until the script failed: {run.error.rstrip('.')}."
    return Conclusion(outcome=Outcome.MEASURED, title=f"{duration(run.mean_step_s())} a step", sentence=sentence)


def _concluded(study: Study) -> Conclusion:
    """The conclusion of a study with levers in its result."""
    assert study.result is not None
    speedup, total = study.result.speedup, study.result.total_speedup
    gain = f"{factor(speedup.mid)} (95% interval {speedup.ends})"
    if study.result.verdict is Verdict.HARMED:
        sentence = f"The step is {gain} as fast, but the gate fails it: training is harmed. Do not apply this."
        return Conclusion(outcome=Outcome.HARM, title="Training is harmed", sentence=sentence)
    if study.result.verdict is Verdict.UNDECIDED:
        sentence = f"The step is {gain} as fast, but the gate is inconclusive: training may be harmed. "
        sentence += "Read the patch before you apply it."
        return Conclusion(outcome=Outcome.UNPROVEN, title="Gate inconclusive", sentence=sentence)
    if not speedup.low > 1.0:
        sentence = f"The step came out at {gain}: that is not told from no gain, so leave the script as it is."
        return Conclusion(outcome=Outcome.NO_GAIN, title="No gain", sentence=sentence)
    if total is None:
        sentence = f"A typical step, 95% interval {speedup.ends}. Training is unharmed: the gate passes it."
        return Conclusion(outcome=Outcome.GAIN, title=f"{factor(speedup.mid)} as fast", sentence=sentence)
    sentence = f"{total_sentence(study, total)} A typical step: {gain}. Training is unharmed: the gate passes it."
    return Conclusion(outcome=Outcome.GAIN, title=f"{factor(total.mid)} as fast", sentence=sentence)


def total_sentence(study: Study, total: Interval) -> str:
    """How much sooner the whole training ends, and what that holds."""
    assert study.result is not None
    if study.result.whole_s:
        number = len(study.result.whole_s)
        often = "once" if number == 1 else f"{number} times"
        how = "as it is and patched, in turns, weighed with what its timed steps predict"
        of = f"The whole training, {often} from start to end {how}"
    elif study.total_steps is None:
        in_part = any(run.trains_again for run in study.baseline[:1])
        of = f"In a long training{' like the first part of this one' * in_part}, starts of epochs included"
    else:
        of = f"The whole training of {study.total_steps:,} steps, from its start to the end of its last step"
    return f"{of}: {factor(total.mid)} as fast as the baseline (95% interval {total.ends})."


def _tried(study: Study) -> int:
    """Levers that were at least begun with."""
    tried = [trial for trial in study.trials if trial.kind in ("lever", "screening") and trial.scope != "none"]
    return len({spec.get("name") for trial in tried for spec in trial.levers})


def _not_held(study: Study) -> Conclusion | None:
    """What was accepted, and not confirmed as the patch that it is, or seemed to gain; None where nothing did."""
    result, patch = study.result, _confirmation(study)
    if result is None or result.verdict is Verdict.UNHARMED:
        return None
    if patch is None:
        return Conclusion(outcome=Outcome.UNPROVEN, title="Nothing proven", sentence=result.why)
    were = "was" if len(patch.levers) == 1 else "were"
    sentence = f"{lever_titles(patch.levers)} {were} accepted. {result.why}"
    return Conclusion(outcome=Outcome.UNPROVEN, title="Accepted, not confirmed", sentence=sentence)


def _confirmation(study: Study) -> Trial | None:
    return next((trial for trial in reversed(study.trials) if trial.kind == "patch"), None)


def _no_gain(study: Study) -> Conclusion:
    tried = plural(_tried(study), "lever")
    widest = max((noise.smallest_gain for noise in study.noise if noise.smallest_gain), default=None)
    if not _tried(study):
        sentence = f"No lever was worth a trial here. {_what_is_left(study, widest)}"
    elif study.result is not None and _confirmation(study) is not None:
        sentence = study.result.why
    elif not any(trial.seen for trial in study.trials):
        sentence = f"{tried} begun with, and no trial could be timed (each says why): nothing is known of a gain."
        return Conclusion(outcome=Outcome.UNTRIED, title="Nothing timed", sentence=sentence)
    else:
        limit = f" (gains below {small_gain(widest)} cannot be seen here)" if widest is not None else ""
        sentence = (
            f"{tried} tried, and none makes this script faster without harm{limit}. {_what_is_left(study, widest)}"
        )
    return Conclusion(outcome=Outcome.NO_GAIN, title="No gain", sentence=sentence)


def _what_is_left(study: Study, smallest_gain: float | None) -> str:
    """The costliest finding, if to be rid of it would be seen above the noise. What computes is as it should be."""
    least = smallest_gain or 1.0
    for finding in study.findings:
        if finding.code != "compute-bound" and finding.share > 1 - 1 / least:
            share = ("up to " if finding.advice else "") + cost_share(finding)
            return f"What is left is for you to change: {finding.code}, {share} (`hotlap explain {finding.code}`)."
    return "It can stay as it is."


def _unfinished(study: Study) -> str:
    state = "was stopped before its end" if study.state is State.INTERRUPTED else "is still running"
    if not study.baseline or not is_tuned(study):
        return f"The study {state}; nothing has been measured yet."
    levers = accepted(study)
    so_far = f"accepted so far: {lever_titles(levers)}" if levers else "no lever is accepted so far"
    return f"The study {state}, after {plural(len(study.trials), 'trial')}; {so_far}."


def patch_missing(study: Study) -> str:
    """Why there is no patch of the levers that were accepted."""
    if study.state is not State.COMPLETE:
        return "No patch yet: it is written when the study is complete."
    if start_commands(study):
        return "No patch: nothing that was accepted is set in the source."
    return "No patch: the accepted levers could not be written into the source."


def start_commands(study: Study) -> tuple[tuple[str, str], ...]:
    """How the script is to be started, beside the patch; none where it is started as ever, or under what does harm."""
    environment = study.result.environment if study.result is not None else {}
    command = command_under(study, environment)
    if command is None or conclusion(study).outcome is Outcome.HARM:
        return ()
    return ((command, "starts it under what is read before Python runs, so that no line of source can set it"),)


def runs_on(study: Study) -> str | None:
    """Whether the patched script needs hotlap when it runs; None without a patch."""
    if not study.patch:
        return None
    ours = _ours(study)
    if not ours:
        return "The patched script is plain PyTorch: it runs where hotlap is not installed."
    return f"The patched script needs hotlap when it runs: it calls {', '.join(ours)}."


def _ours(study: Study) -> list[str]:
    """What the patch imports from hotlap; each lever of that kind writes calls of one function."""
    return list(dict.fromkeys(_OURS.findall(study.patch or "")))


_OURS = re.compile(r"^\+\s*from hotlap[\w.]* import (\w+)", re.MULTILINE)


def apply_commands(study: Study) -> tuple[tuple[str, str], ...]:
    """Commands for the patch, and what they do; none for a patch that does harm."""
    if not study.patch or conclusion(study).outcome is Outcome.HARM:
        return ()
    files = ", ".join(change.path.removeprefix(f"{study.cwd}/") for change in study.changes)
    # A variable of the environment is a lever that changes no file.
    result = study.result
    plain = result is not None and 0 < len(_ours(study)) < len(result.levers) - len(result.environment)
    return (
        ("hotlap apply", f"writes the patch into {files or 'the files named in it'}"),
        *([("hotlap apply --without hotlap", "writes its part in plain PyTorch alone")] if plain else []),
        ("hotlap apply --revert", "takes it back"),
    )


def again_commands(study: Study) -> tuple[tuple[str, str], ...]:
    """How to ask anew what the time of a complete study was too short to tell, in the time that it asks for or in twice
    its own; none where it told something."""
    open_ = conclusion(study).outcome in (Outcome.UNPROVEN, Outcome.UNTRIED)
    if not open_ or study.patch or study.state is not State.COMPLETE:
        return ()
    needs_s = study.result.needs_s if study.result is not None else None
    wanted_s = needs_s or 2 * study.budget_s
    if not isfinite(wanted_s):
        return ()
    minutes = ceil(wanted_s / 60)
    words = shlex.join(("hotlap", "tune", "--budget", f"{minutes}m", *study.asked))
    return ((f"{words} {script(study)}", "asks again, in more time"),)


def result_lines(study: Study) -> tuple[str, ...]:
    """What a tuned study's reader should know before a patch is applied: levers, proof, costs, needs."""
    levers = accepted(study)
    lines: list[str | None] = []
    if levers:
        lines.append(f"Levers: {', '.join(map(lever_title, levers))}.")
    if study.result is not None and levers:
        lines.append(f"Gate: {study.result.why or 'no reason was recorded.'}")
    lines += [cost_sentence(study), runs_on(study)]
    if levers and not study.patch:
        lines.append(patch_missing(study))
    return tuple(line for line in lines if line)
