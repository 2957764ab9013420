"""A trace -> the record that `hotlap measure` makes of a training: steps, phases, the device, what it waited for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hotlap.errors import UserError
from hotlap.record import IdleReason, OperatorWindow, Run, Status
from hotlap.trace import excerpt, numbers, phases, sightings, spans, steps
from hotlap.trace import host as hosts
from hotlap.trace import idle as idles
from hotlap.trace.hold_ups import hold_ups
from hotlap.trace.host import Host
from hotlap.trace.idle import Idle
from hotlap.trace.nesting import Callers
from hotlap.trace.operators import COMPILED, aggregate
from hotlap.trace.phases import Launched
from hotlap.trace.recomputed import on_host_s
from hotlap.trace.steps import Steps
from hotlap.trace.table import Floats, Kind, Mask, Trace
from hotlap.trace.timeline import Timeline, by_work, of_device, timeline
from hotlap.trace.work import StepKernels
from hotlap.units import percent

_COMPILED = rf"{COMPILED}|Torch-Compiled Region|triton_(?:poi|red|per|tem)_"
# Beyond, operators and kernels are counted in the first steps only.
_MOST_EVENTS = 200_000
# Devices of one process that are named.
_MOST_DEVICES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that one trace says of its busiest device."""

    trace: Trace
    steps: Steps
    edges: Floats
    """(S + 1,) of the steps by the device's clock."""
    timeline: Timeline
    rows: Mask
    """Events of that device that count."""
    threads: frozenset[int]
    """Lanes of those that train."""
    host: Host
    idle: Idle
    launched: Launched
    kernels: StepKernels
    who: Callers
    run: Run


def reading(trace: Trace) -> Reading:
    """Of the device with the most work; of others a note says that they worked.

    Raises:
        UserError: nothing ran on a device.
    """
    work = by_work(trace)
    device = next(iter(work), None)
    if device is None:
        raise UserError(
            f"{trace.title} holds no work of a device: record with ProfilerActivity.CUDA (it stands for ROCm as well). "
            "`hotlap measure` tells of a training on the CPU."
        )
    rows = of_device(trace, device)
    found = timeline(trace, rows, device)
    told = steps.find(trace)
    threads = steps.training_threads(trace, told)
    host = hosts.look(trace, threads)
    edges = steps.on_device(trace, told, rows)
    who = Callers(trace, threads)
    idle = idles.explain(trace, rows, found, edges, host, threads, who)
    launched = phases.launched(trace, rows, host)
    done = StepKernels(trace, rows, told, who)
    told_s = phases.seconds(launched, found, edges, idle)
    count = len(edges) - 1
    reasons = {str(why): idle.seconds(why) / count for why in IdleReason if idle.seconds(why) > 0}
    named = {
        str(why): {name: seconds / count for name, seconds in found_in.items()}
        for why, found_in in hold_ups(trace, idle, host, threads, who).items()
    }
    run = Run(
        status=Status.COMPLETE,
        device=trace.devices.get(device, f"device {device}"),
        device_type="cuda",  # torch's name for NVIDIA's and AMD's devices alike
        step_s=tuple(np.diff(edges).tolist()),
        phase_s=told_s,
        device_phase_s=told_s,
        operators=replace(
            window(trace, rows, done, told, edges, threads, who, on_device=True), idle_s=reasons, held_up=named
        ),
        sightings=sightings.at_lines(trace, rows, told, found, threads, who, idle),
        # What is computed in half precision already, and by torch.compile, needs no such lever.
        autocast=numbers.precision(trace, done) in numbers.HALF,
        compiled=trace.named(_COMPILED).any().item(),
        rank=trace.rank or 0,
        world_size=trace.world_size,
        excerpt=excerpt.drawn(trace, rows, edges, host, found, launched),
        from_trace=True,
        notes=(f"Steps were told apart by {told.how}.", *_others(trace, work, edges), *trace.notes),
    )
    return Reading(
        trace=trace,
        steps=told,
        edges=edges,
        timeline=found,
        rows=rows,
        threads=threads,
        host=host,
        idle=idle,
        launched=launched,
        kernels=done,
        who=who,
        run=run,
    )


def _others(trace: Trace, work: Mapping[str, float], edges: Floats) -> Iterator[str]:
    """Of several devices of one process only the first is told."""
    first, *others = work
    steps = np.array([[edges[0], edges[-1]]])
    for device in others[:_MOST_DEVICES]:
        busy = timeline(trace, of_device(trace, device), device).busy
        busy_share = spans.length(spans.common(busy, steps)) / (edges[-1] - edges[0] or 1.0)
        yield (
            f"{trace.devices.get(device, f'Device {device}')} (device {device}) worked too, "
            f"{percent(work[device] / (work[first] or 1.0))} of the time of device {first}, and was busy for "
            f"{percent(busy_share)} of these steps; only device {first} is told here."
        )


def window(
    trace: Trace,
    rows: Mask,
    done: StepKernels | None,
    told: Steps,
    edges: Floats,
    threads: frozenset[int],
    who: Callers,
    *,
    on_device: bool,
) -> OperatorWindow:
    """The steps as an operator window: who called what, and what the device did for it; of a long trace its first ones,
    as many as have so many events."""
    calls = trace.which(Kind.OPERATOR, Kind.RUNTIME) | (trace.which(Kind.ANNOTATION) & trace.named(COMPILED))
    counted = np.flatnonzero((np.isin(trace.lane, list(threads)) & calls) | rows)
    # A step has what was launched in it: a host that is ahead of the device launches in one step what runs in the next.
    called = trace.called()
    counted = counted[np.argsort(called[counted], kind="stable")]
    upto = np.searchsorted(called[counted], told.edges)
    count = max(1, int(np.searchsorted(upto - upto[0], _MOST_EVENTS, side="right")) - 1)
    chosen = np.zeros(len(called), bool)
    chosen[counted[upto[0] : upto[count]]] = True
    found = aggregate(
        trace,
        chosen,
        who,
        num_steps=count,
        wall_s=float(edges[count] - edges[0]),
        host_s=float(told.edges[count] - told.edges[0]),
        on_device=on_device,
    )
    if done is None:
        return found if on_device else replace(found, recomputed_s=on_host_s(trace, threads, told))
    return replace(
        found,
        work=done.kinds(),
        copies=done.copies(),
        collectives=done.collectives(),
        graphs=done.graphs(),
        shaped=done.shapes(),
        recomputed_s=done.recomputed_s(threads),
        tensor_core_share=done.matrix_core_share(),
    )
