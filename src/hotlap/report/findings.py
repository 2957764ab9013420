"""A study's findings -> what each costs, what it may bring and risk, and the next command. Plain text, not cleaned."""

from collections.abc import Iterator
from difflib import unified_diff
from statistics import mean

from hotlap.record import LEAST_GAIN, Finding, Phase, Study
from hotlap.report.clean import clean, clean_line
from hotlap.report.story import command_under, cost_share, phases, script, timed
from hotlap.units import duration, factor, percent


def cost(study: Study, finding: Finding) -> str:
    """ "1.2 ms, 40% of a step, at most 1.67x"; "1.2 ms beside each step, 93% of all time" where it is spent between
    steps; "up to" in front where it is a bound."""
    begin, beside = "up to " if finding.advice else "", " beside each step" if finding.between_steps else ""
    parts = (f"{begin}{duration(finding.cost_s)}{beside}", cost_share(finding), _bound(study, finding))
    return ", ".join(filter(None, parts))


def _bound(study: Study, finding: Finding) -> str | None:
    """ "at most 2.10x": what its phase can bring, the upper end of the measured bound where there is one; "about" where
    that is an estimate, or others took the cores: what is left of a step is shorter without them, so that 29x was had
    where 13x was left; None where it is the step, next to nothing of it, or the model itself, which never is free."""
    known = next((one for one in study.ceilings if one.name in _CEILINGS_OF.get(finding.code, ())), None)
    if finding.code in _NEVER_FREE or (known is None and _is_open(study, finding)):
        return None
    whole_loop = finding.code == "launch-bound" and finding.at_most_share > 0
    of_phases = (finding.code in _BOUNDED or whole_loop) and not _is_disturbed(study)
    is_bound = finding.advice or of_phases
    share = finding.share if known is None else 1 - 1 / (known.speedup.high if is_bound else known.speedup.mid)
    gain = 1 / (1 - min(max(share, finding.at_most_share), _ALL_OF_IT))
    how = "at most" if is_bound else "about"
    return f"{how} {factor(gain)}" if LEAST_GAIN <= gain < 1 / (1 - _ALL_OF_IT) else None


def _is_disturbed(study: Study) -> bool:
    run = timed(study)
    return run is not None and run.cpu is not None and run.cpu.disturbed


def _is_open(study: Study, finding: Finding) -> bool:
    """What free batches bring is known later than the finding; what may be a wait for other threads has no bound."""
    run = timed(study)
    waits = run is not None and run.cpu is not None and run.cpu.has_threads
    return finding.code == "input-bound" or (finding.code == "host-bound" and waits)


# The model itself; what attends to the wrong dimension computes as much when it is fixed.
_NEVER_FREE = frozenset({"attention-over-batch", "compute-bound"})
# Of these all that the cause can take is known: a phase, or passes but for one. Of others calls, Python or another
# setting are estimated or timed, and who fixes the cause may save more: fewer threads made steps 19 times as fast where
# turns of a few steps each had said 10.
_BOUNDED = frozenset({
    "communication-bound", "epoch-gap", "frequent-validation", "input-bound", "optimizer-bound", "single-samples",
    "sync-bound", "transfer-bound",
})  # fmt: skip
# Above it the rest of the step is within what phases are measured to.
_ALL_OF_IT = 0.99
_CEILINGS_OF = {
    "input-bound": ("input",),
    "transfer-bound": ("transfers",),
    "communication-bound": ("communication",),
    "optimizer-bound": ("optimizer",),
    "host-bound": ("host", "host work"),
    "launch-bound": ("launches",),
    "sync-bound": ("sync",),
}


def remedy(study: Study, finding: Finding) -> str:
    """What a change for it may cost, and the next command."""
    following = f"What helps: `hotlap explain {finding.code}`"
    if finding.try_levers and _can_run_again(study):
        following = f"Next: `hotlap tune --levers {','.join(finding.try_levers)} {script(study)}`"
    elif finding.try_levers:
        following = f"Levers to try in the training itself: {', '.join(finding.try_levers)}. {following}"
    return f"Risk: {finding.risk} {following}" if finding.risk else following


def _can_run_again(study: Study) -> bool:
    """A recorded trace has no versions, and cannot be run again."""
    run = timed(study)
    return run is not None and bool(run.versions)


# What a phase that takes too much of a step is called.
_CAUSE_OF = {
    Phase.INPUT: "input-bound",
    Phase.TRANSFER: "transfer-bound",
    Phase.COMMUNICATION: "communication-bound",
    Phase.OPTIMIZER: "optimizer-bound",
    Phase.SYNC: "sync-bound",
    Phase.OTHER: "host-bound",
}


# A phase that takes so much is a cause, or what a finding explains; but of `other` less than half can be Python here.
_MUCH = 0.2


def other_phases(study: Study) -> str | None:
    """The usual causes that were not found, and what their phases take; None where there is no such phase."""
    run = timed(study)
    codes = {finding.code for finding in study.findings}
    shares = []
    for part in phases(run) if run is not None else ():
        code = _CAUSE_OF.get(part.phase)
        if run is None or code is None or code in codes or part.mean_s is None:
            continue
        # Of the device's time where it is known: what the host waits for meanwhile may be work.
        on_device = run.device_phase_s.get(part.phase)
        share = run.share_of(mean(on_device)) if on_device else part.share
        if share < _MUCH or part.phase is Phase.OTHER:
            # host-bound is found where a tenth of a step is the script's own Python.
            why = ", most of it in operators" if share >= _MUCH else ""
            shares.append(f"{code} ({part.phase.value} takes {percent(share)} of a step{why})")
    return f"Not found: {', '.join(shares)}." if shares else None


def next_commands(study: Study) -> Iterator[tuple[str, str]]:
    """What to do after a measurement: (command, what it does)."""
    run, found = timed(study), study.findings
    # Where the script sets its threads itself no trial changes them.
    own = run is not None and any(site.calls == "torch.set_num_threads" for site in run.call_sites)
    levers = dict.fromkeys(lever for finding in found for lever in finding.try_levers)
    if study.sweep is not None and study.sweep.fewer and not own and "threads" not in levers:
        yield f"hotlap tune --levers threads {script(study)}", "tries fewer threads, and proves what helps"
    if not found:
        return
    command = command_under(study, found[0].environment)
    if command is not None:
        yield command, "starts it without that fault"
    yield f"hotlap explain {found[0].code}", "what it is, and what helps"
    if levers and _can_run_again(study):
        yield f"hotlap tune {script(study)}", f"tries {', '.join(levers)}, and proves what helps"


def change_lines(study: Study, finding: Finding) -> tuple[str, ...]:
    """What a person would change by hand: the command line, and the source as lines of a diff; none of what stays."""
    command = command_under(study, finding.environment)
    started = () if command is None else (f"$ {clean_line(command)}",)
    if not finding.after:
        return started
    before, after = clean(finding.before).splitlines(), clean(finding.after).splitlines()
    # Whole; the first three lines are names and numbers of lines.
    lines = list(unified_diff(before, after, n=len(before), lineterm=""))[3:]
    return (
        *started,
        *([f"@ {clean(finding.where)}"] if finding.where else []),
        *(f"{line[0]} {line[1:]}" for line in lines),
    )
