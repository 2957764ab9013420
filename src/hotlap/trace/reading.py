"""A trace -> the record that `hotlap measure` makes of a training: steps, phases, the device, what it waited for."""

from dataclasses import replace

import numpy as np

from hotlap.errors import UserError
from hotlap.record import IdleReason, OperatorWindow, Run, Status
from hotlap.trace import excerpt, phases, sightings, steps
from hotlap.trace import idle as idles
from hotlap.trace.operators import COMPILED, aggregate
from hotlap.trace.recomputed import on_host_s
from hotlap.trace.seen import Seen
from hotlap.trace.table import Kind, Trace
from hotlap.trace.timeline import by_work
from hotlap.trace.work import StepKernels

_COMPILED = rf"{COMPILED}|Torch-Compiled Region|triton_(?:poi|red|per|tem)_"
# Beyond, operators and kernels are counted in the first steps only.
_MOST_EVENTS = 200_000
# Devices of one process that are named.
_MOST_DEVICES = 16


class Reading(Seen):
    """All that one trace says of one of its devices."""

    def __init__(self, trace: Trace, device: str) -> None:
        super().__init__(trace, steps.find(trace), device)
        self.idle = idles.explain(self)
        self.launched = phases.launched(self)
        self.kernels = StepKernels(self)
        self.run = self._run(device)

    def _run(self, device: str) -> Run:
        trace, told_s = self.trace, phases.seconds(self, self.launched, self.idle)
        reasons = {str(why): self.idle.seconds(why) / self.count for why in IdleReason if self.idle.seconds(why) > 0}
        named = {
            str(why): {name: seconds / self.count for name, seconds in found.items()}
            for why, found in idles.hold_ups(self, self.idle).items()
        }
        seen = window(self, self.kernels, on_device=True)
        return Run(
            status=Status.COMPLETE,
            device=trace.devices.get(device, f"device {device}"),
            device_type="cuda",  # torch's name for NVIDIA's and AMD's devices alike
            step_s=tuple(np.diff(self.edges).tolist()),
            phase_s=told_s,
            device_phase_s=told_s,
            operators=replace(seen, idle_s=reasons, held_up=named),
            sightings=sightings.at_lines(self, self.idle),
            # What is computed in half precision already, and by torch.compile, needs no such lever.
            autocast=self.kernels.in_half_precision(),
            compiled=trace.named(_COMPILED).any().item(),
            rank=trace.rank or 0,
            world_size=trace.world_size,
            excerpt=excerpt.drawn(self, self.launched),
            from_trace=True,
            notes=(f"Steps were told apart by {self.steps.how}.", *trace.notes),
        )


def reading(trace: Trace) -> Reading:
    """Of the device with the most work; a note names others that worked.

    Raises:
        UserError: nothing ran on a device.
    """
    worked = by_work(trace)
    if not worked:
        raise UserError(
            f"{trace.title} holds no work of a device: record with ProfilerActivity.CUDA (it stands for ROCm as well). "
            "`hotlap measure` tells of a training on the CPU."
        )
    first, *others = worked
    if others:
        named = ", ".join(others[:_MOST_DEVICES])
        note = f"Only device {first} is told here, which worked most; others worked too: {named}."
        trace = replace(trace, notes=(note, *trace.notes))
    return Reading(trace, first)


def window(seen: Seen, done: StepKernels | None, *, on_device: bool) -> OperatorWindow:
    """The steps as an operator window: who called what, and what the device did for it; of a long trace its first ones,
    as many as have so many events."""
    trace, edges = seen.trace, seen.steps.edges
    calls = trace.which(Kind.OPERATOR, Kind.RUNTIME) | (trace.which(Kind.ANNOTATION) & trace.named(COMPILED))
    counted = np.flatnonzero((np.isin(trace.lane, list(seen.threads)) & calls) | seen.rows)
    # A step has what was launched in it: a host that is ahead of the device launches in one step what runs in the next.
    called = trace.called()
    counted = counted[np.argsort(called[counted], kind="stable")]
    upto = np.searchsorted(called[counted], edges)
    count = max(1, int(np.searchsorted(upto - upto[0], _MOST_EVENTS, side="right")) - 1)
    chosen = np.zeros(len(called), bool)
    chosen[counted[upto[0] : upto[count]]] = True
    found = aggregate(
        trace,
        chosen,
        seen.who,
        num_steps=count,
        wall_s=float(seen.edges[count] - seen.edges[0]),
        host_s=float(edges[count] - edges[0]),
        on_device=on_device,
    )
    if done is None:
        return found if on_device else replace(found, recomputed_s=on_host_s(seen))
    return replace(
        found,
        work=done.kinds(),
        copies=done.copies(),
        collectives=done.collectives(),
        recomputed_s=done.recomputed_s(),
        tensor_core_share=done.matrix_core_share(),
    )
