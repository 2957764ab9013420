"""Session -> the Run that is written when a process ends."""

import os
import sys
import time
from typing import TYPE_CHECKING

import torch

import hotlap
from hotlap.probe import clock as phases
from hotlap.probe.clock import Clock
from hotlap.probe.facts import device_name
from hotlap.probe.sites import users_sources
from hotlap.record import Run, Status, save

if TYPE_CHECKING:
    from hotlap.probe.session import Session


def write(session: "Session", status: Status, *, sample: bool) -> None:
    """Save the record of this process. `sample`: items of the data sets may still be computed, nothing follows."""
    session.arms.close()
    path = session.out / f"run-{os.environ.get('RANK', '0')}.json"
    if not session.steps and path.exists():
        # A launcher (torchrun) imports torch as well, and ends after the processes that trained.
        return
    save(make_run(session, status, sample=sample), path)


def make_run(session: "Session", status: Status, *, sample: bool) -> Run:
    """Everything that is known."""
    plan, facts = session.plan, session.facts
    seen = dict(session.windows.fields())
    notes = (*session.arms.notes, *session.windows.notes, *seen.pop("notes", ()))
    return Run(
        status=status,
        error=session.error,
        versions=_versions(),
        device=device_name(_device_of(facts.optimizers())),
        num_threads=session.num_threads,
        seed=None if plan.seed is None else plan.seed + plan.reseed,
        reseed=plan.reseed,
        nudge=plan.nudge,
        arms=plan.arms,
        always=plan.always,
        setup_s=session.setup_s,
        skipped_updates=session.skipped_updates,
        updates=tuple(session.updates.seen) if plan.evidence else None,
        loaders=facts.loader_facts(sample=sample and plan.evidence),
        optimizers=facts.optimizer_facts(),
        autocast=facts.autocast,
        compiled=facts.compiled,
        call_sites=facts.all_call_sites(),
        sources=users_sources(),
        rss_peak_bytes=_rss_peak_bytes(),
        device_peak_bytes=torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
        rank=int(os.environ.get("RANK", "0")),
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
        probe_s=_cost_s(session),
        not_installed=tuple(dict.fromkeys(session.arms.not_installed)),
        notes=tuple(dict.fromkeys(notes)),
        **session.ledger.columns(measured=session.clock.entered, evidence=plan.evidence),
        **seen,
    )


def process_start() -> float:
    """When this process began, in seconds since the epoch."""
    import psutil

    return float(psutil.Process().create_time())


def _cost_s(session: "Session") -> float | None:
    """What the probe cost a step: its own work between steps, and its events at their price."""
    if not session.steps:
        return None
    return (session.own_s + session.clock.num_intervals * _interval_s()) / session.steps


def _device_of(optimizers: list[torch.optim.Optimizer]) -> torch.device:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                return torch.device(parameter.device)
    return torch.device("cpu")


def _versions() -> dict[str, str]:
    versions = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": str(torch.__version__),
        "hotlap": hotlap.__version__,
    }
    return versions | ({"cuda": torch.version.cuda} if torch.version.cuda else {})


def _rss_peak_bytes() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _interval_s() -> float:
    """What writing one interval costs here and now, the hook around it included."""
    clock = Clock()
    repeats = 2000

    def hook() -> None:
        before, clock.where = clock.where, phases.FORWARD
        begin = clock.now()
        try:
            pass
        finally:
            clock.note((phases.FORWARD, begin, clock.now()))
            clock.where = before

    begun = time.perf_counter()
    for _ in range(repeats):
        hook()
    return (time.perf_counter() - begun) / repeats
