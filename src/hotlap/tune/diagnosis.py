"""Run -> its findings, each with the levers that can be tried for it here, and what could be gained at best.

Rules name what helps against a fault, and know no levers; whether a lever can be tried is asked here, once for all. Of
the bounds one is of a differential run, which makes a thing free; the others take its time away.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hotlap import levers, rules
from hotlap.errors import UserError
from hotlap.experiment import statistics
from hotlap.experiment.batches import ceiling
from hotlap.experiment.statistics import FEWEST_SHOWN
from hotlap.record import Ceiling, Finding, Machine, Phase, Run
from hotlap.rules import host_bound
from hotlap.rules.launch_bound import calls_s
from hotlap.rules.step import device_s, idle_s, launch_s, transfer_s
from hotlap.search import StudyLog
from hotlap.search.candidates import rejects
from hotlap.source import scripts

# Input that takes less of a step cannot bring a gain that counts (record.LEAST_GAIN).
_LEAST_SHARE = 0.02

# Part of a step by which the ends of an interval may differ: "1.00-100x" tells nothing of what could be saved.
_MOST_OPEN = 0.5


def diagnosed(log: StudyLog, run: Run) -> None:
    """Into the study: the run as its baseline, and what is found in it, with the bounds that its phases give; that of
    free batches is measured later."""
    log.change("baseline", baseline=(run,), machine=log.machine)
    bounds = tuple(one for one in ceilings(run) if one.name != "input")
    log.change("findings", findings=findings_of(run, log.machine), ceilings=bounds)


def findings_of(run: Run, machine: Machine) -> tuple[Finding, ...]:
    """What `rules.check` finds, without the levers that a study would refuse. Where the script's source is not what it
    was, it cannot be told which these are, and all stay."""
    found = rules.check(run, machine)
    try:
        scripts(run)
    except UserError:
        return found
    names = {name for finding in found for name in finding.try_levers}
    fit = {
        name  # one of its settings at least is worth a trial
        for name in names
        if any(rejects(lever, run, machine) is None for lever in levers.by_name(name).candidates(run, machine))
    }
    return tuple(replace(one, try_levers=tuple(name for name in one.try_levers if name in fit)) for one in found)


def input_matters(run: Run) -> bool:
    """Free batches could bring a gain that counts."""
    share = run.share(Phase.INPUT)
    waits = share is None or share >= _LEAST_SHARE
    return has_workers(run) or (waits and any(loader.trained_on for loader in run.loaders))


def has_workers(run: Run) -> bool:
    """Batches are made by processes, and what those cost the others beside them is in no phase."""
    return any(loader.trained_on and loader.num_workers for loader in run.loaders)


def ceilings(run: Run, *, free: Sequence[float] = ()) -> tuple[Ceiling, ...]:
    """Highest first: free batches as measured, by enough processes (`free`: the log-ratio of each), the others from the
    phases of the run: what each thing costs is taken away from each step, and no change to it can bring more."""
    bounds = (ceiling(run, name, why, saved_s) for name, why, saved_s in _savings(run))
    known = [one for one in (_free_input(run, free), *bounds) if one is not None]
    found = [one for one in known if 1 / one.speedup.low - 1 / one.speedup.high <= _MOST_OPEN]
    by_name = {one.name: one for one in reversed(found)}
    return tuple(sorted(by_name.values(), key=lambda one: -one.speedup.mid))


def _free_input(run: Run, log_ratios: Sequence[float]) -> Ceiling | None:
    """The script with its batches replayed against the baseline."""
    interval = statistics.interval(log_ratios, pooled_variance=None)
    if interval is None or len(log_ratios) < FEWEST_SHOWN:
        return None
    return Ceiling(
        name="input",
        idealised="batches replayed from memory instead of loaded",
        step_s=run.mean_step_s() / interval.mid,
        speedup=interval,
    )


def _savings(run: Run) -> Iterator[tuple[str, str, Sequence[float]]]:
    """Name, what is idealised, and the seconds of each step that it would save."""
    phases = (
        ("input", "no wait for a batch", Phase.INPUT),
        ("transfers", "no wait for a copy between host and device", Phase.TRANSFER),
        ("optimizer", "no time in optimizer steps", Phase.OPTIMIZER),
        ("communication", "no wait for other processes", Phase.COMMUNICATION),
    )
    for name, why, phase in phases:
        saved_s = _of_phase(run, phase)
        if saved_s is not None:
            yield name, why, saved_s
    yield from _of_host(run)
    yield from _of_launches(run)


def _of_phase(run: Run, phase: Phase) -> Sequence[float] | None:
    """Seconds of each step in a phase; of the device's time where it was seen, because what the host spends beside it
    is hidden, and where the host waits for a copy it waits for all that the device was asked before as well."""
    on_device = transfer_s(run) if phase is Phase.TRANSFER else device_s(run, phase)
    host_s = run.phase_s.get(phase)
    known = host_s if on_device is None else (on_device,) * len(run.step_s)
    return known if known is not None and len(known) == len(run.step_s) and any(known) else None


def _of_host(run: Run) -> Iterator[tuple[str, str, Sequence[float]]]:
    """The script's own Python, on the CPU as the finding `host-bound` has it; with a device only as far as the device
    was idle meanwhile. Nothing where that may be waiting for other threads: those would still have to be waited for."""
    if run.phase_s.get(Phase.FORWARD) is None or (run.cpu is not None and run.cpu.has_threads):
        return  # without modules the script's arithmetic is in there
    idle = idle_s(run)
    if idle is not None:
        saved_s = [min(part, idle) for part in _of_phase(run, Phase.OTHER) or ()]
    else:
        outside_s, inside_s = host_bound.spent_s(run)
        parts = (_spread(run, outside_s, Phase.OTHER), _spread(run, inside_s, Phase.FORWARD, Phase.BACKWARD))
        saved_s = [outside + inside for outside, inside in zip(*parts, strict=True)]
    if any(saved_s):
        yield "host", "no time in the script's own Python", saved_s


def _spread(run: Run, mean_s: float, *phases: Phase) -> Sequence[float]:
    """`mean_s` of each step, in the proportion of what each spent in these phases."""
    known = [column for phase in phases if (column := run.phase_s.get(phase)) is not None]
    spent_s = [sum(parts) for parts in zip(*known, strict=True)]
    total_s = sum(spent_s)
    return [mean_s * len(run.step_s) * part / total_s for part in spent_s] if total_s else [0.0] * len(run.step_s)


def _of_launches(run: Run) -> Iterator[tuple[str, str, Sequence[float]]]:
    """What it costs to start operators, each of them however small: on the CPU as the finding `launch-bound` has it."""
    gaps_s, cost_s = launch_s(run), calls_s(run) if run.on_cpu else None
    if gaps_s is not None:
        yield "launches", "the device never waits for a launch", (gaps_s,) * len(run.step_s)
    elif cost_s:
        yield "launches", "no time for calling the model's operators", (cost_s,) * len(run.step_s)
