"""Session -> the Run that is written when a process ends."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

import hotlap
from hotlap import accelerator
from hotlap.probe import clock as phases
from hotlap.probe import edited, procfs
from hotlap.probe.clock import Clock
from hotlap.probe.sites import users_sources
from hotlap.record import Run, Status, save
from hotlap.record.moments import median
from hotlap.record.spans import excerpt

if TYPE_CHECKING:
    from hotlap.probe.session import Session

# More than the caches of one core hold: two megabytes, on a server of today.
_CACHES = 4 << 20

# The first one at once, because scripts fail early; the second, which can tell more, soon.
_SECOND_S = 5.0
_EVERY_S = 30.0
# Writing may take this part of the time, 1 in so many.
_SHARE = 500


def write(session: "Session", status: Status, *, sample: bool) -> None:
    """Save the record of this process. `sample`: items of the data sets may still be computed, nothing follows."""
    session.arms.settled()  # asked once more, so that the last notes of levers are there
    # A launcher, a helper: its record must not take the place of one that trained, but may say why none did.
    name = f"run-{session.collectives.rank}.json" if session.steps else f"idle-{os.getpid()}.json"
    save(make_run(session, status, sample=sample), session.out / name)
    if not session.plan.whole:
        session.facts.imported.write(session.out)


def make_run(session: "Session", status: Status, *, sample: bool, last: bool = True) -> Run:
    """Everything that is known. `last`: the run is over; before, what profilers still look at is theirs."""
    plan, facts = session.plan, session.facts
    sources = users_sources(facts.imported.script)
    optimizers = facts.optimizer_facts()
    seen = dict(session.windows.fields(last=last))
    device_type = session.guard(lambda: facts.device().type, "the device that the model is on")()
    notes = (*session.arms.notes, *session.windows.notes, *seen.pop("notes", ()))
    return Run(
        status=status,
        error=session.shutdown.error,
        versions=_versions(),
        device=next((one.device for one in optimizers if one.num_parameters), "cpu"),
        device_type=device_type,
        num_threads=session.num_threads,
        seed=None if plan.seed is None else plan.seed + plan.reseed,
        reseed=plan.reseed,
        perturbation=plan.perturbation,
        order_seed=plan.order_seed,
        arms=plan.arms,
        always=plan.always,
        setup_s=session.setup_s,
        own_start_s=session.own_start_s,
        skipped_updates=session.skipped_updates,
        updates=tuple(session.script.updates.seen) if plan.evidence else None,
        dropouts=session.script.dropouts.found(),
        precision=session.script.dropouts.precision(),
        printed=tuple(session.printed.lines),
        trained=session.script.updates.trained,
        untrained=session.script.updates.untrained,
        states=tuple(session.states.seen) if plan.evidence else None,
        loaders=facts.loader_facts(sample=sample and (plan.evidence or bool(plan.profilers))),
        optimizers=optimizers,
        autocast=facts.autocast,
        compiled=facts.compiled,
        planned_steps=facts.planned_steps,
        trains_again=facts.trains_again,
        call_sites=facts.all_call_sites(),
        sources=sources,
        rss_peak_bytes=procfs.peak_rss_bytes(),
        device_peak_bytes=session.guard(accelerator.peak_bytes, "the peak of the device's memory")(),
        device_reserved_bytes=session.guard(accelerator.reserved_bytes, "the allocator of the device's memory")(),
        device_free_bytes=session.guard(accelerator.free_bytes, "the device's free memory")(),
        **session.collectives.fields(),
        probe_s=_cost_s(session),
        not_installed=tuple(dict.fromkeys(session.arms.not_installed)),
        unreached=edited.unreached(plan.replaced, sources),
        notes=tuple(dict.fromkeys(notes)),
        excerpt=excerpt(session.ring.steps()) if last and session.ring is not None else None,
        **session.ledger.columns(measured=session.measured),
        **seen,
    )


def partial_writer(session: "Session") -> Callable[[int], None]:
    """Told of the end of each step, by its number, it writes down what is known so far, now and then: with the last
    spans (`hotlap.record.spans`) that is what is left after a `kill -9`."""
    next_s = 0.0

    def step_ended(step: int) -> None:
        nonlocal next_s
        now_s = time.perf_counter()
        if not step or now_s < next_s:
            return
        with contextlib.suppress(Exception):  # a full disk, say: the next try may succeed
            run = make_run(session, Status.KILLED, sample=False, last=False)
            save(run, session.out / f"partial-{session.collectives.rank}.json")
        took_s = time.perf_counter() - now_s
        next_s = now_s + (max(_EVERY_S, _SHARE * took_s) if next_s else _SECOND_S)

    return step_ended


def _cost_s(session: "Session") -> float | None:
    """What the probe cost a recorded step: its own work between steps, and what it wrote in them at its price. Of a run
    that is only compared nobody asks, and to know the price takes longer than all else at its end."""
    if not session.num_recorded or not session.plan.profilers:
        return None
    written = session.clock.num_intervals / session.steps
    return session.own_s / session.num_recorded + written * _interval_s(session.clock.now)


def _versions() -> dict[str, str]:
    versions = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": str(torch.__version__),
        "hotlap": hotlap.__version__,
    }
    if "torchdiffeq" in sys.modules:  # what a lever is for
        versions["torchdiffeq"] = str(getattr(sys.modules["torchdiffeq"], "__version__", ""))
    return versions | ({"cuda": torch.version.cuda} if torch.version.cuda else {})


def _interval_s(now: Callable[[], float]) -> float:
    """What writing one interval costs here and now, where the caches are full of others' things as in a step: in a loop
    of its own it is a third of that."""
    clock, others, costs_s = Clock(now), bytearray(_CACHES), []
    for _ in range(30):
        bytes(others)
        begun = time.perf_counter()
        clock.enter(phases.FORWARD)
        clock.leave()
        costs_s.append(time.perf_counter() - begun)
    return median(costs_s)
