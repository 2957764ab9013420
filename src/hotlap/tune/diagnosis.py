"""Run -> its findings, each with the levers that can be tried for it in this script, on this machine.

Rules name what helps against a fault, and know no levers; whether a lever can be tried is asked here, once for all.
"""

from dataclasses import replace

from hotlap import levers, rules
from hotlap.errors import UserError
from hotlap.record import Finding, Machine, Run
from hotlap.search import StudyLog
from hotlap.search.candidates import rejects
from hotlap.source import scripts
from hotlap.tune.ceilings import ceilings


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
    fit = {name for name in names if _fits(name, run, machine)}
    return tuple(replace(one, try_levers=tuple(name for name in one.try_levers if name in fit)) for one in found)


def _fits(name: str, run: Run, machine: Machine) -> bool:
    """One of its settings at least is worth a trial."""
    return any(rejects(lever, run, machine) is None for lever in levers.by_name(name).candidates(run, machine))
