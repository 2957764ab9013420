"""Some events of a trace -> what the operators of a step cost, and what its device did.

Events may be lost by the profiler (pytorch#192021): the result then says that it is not complete.
"""

import numpy as np

from hotlap.record import Operator, OperatorWindow
from hotlap.trace import spans
from hotlap.trace.nesting import Callers, around
from hotlap.trace.table import ON_DEVICE, Floats, Ints, Kind, Mask, Trace
from hotlap.trace.timeline import timeline

# Operators told; in real steps the first ten hold nearly all of the time.
_MAX_OPERATORS = 40

# Launches whose kernels are missing: below this a launch at the window's edge explains it.
_MAX_DROPPED = 0.02

# The device's time may exceed the host's by rounding and clock conversion, not by more than this.
_TOLERANCE = 0.05

COMPILED = "## Call CompiledFxGraph"
"""So begins the name of a graph of torch.compile, which is one call here."""
# "aten::mm", but none of autograd's frames around operators.
_OPERATOR = rf"(?!torch::autograd::|autograd::)\w+::\w|{COMPILED}"
# Of copies, those that never leave the device.
_STAYS = r"Memcpy (?:DtoD|PtoP)"
_KERNELS = (Kind.KERNEL, Kind.COMMUNICATION)


def aggregate(
    trace: Trace, chosen: Mask, who: Callers, *, num_steps: int, wall_s: float, host_s: float = 0.0, on_device: bool
) -> OperatorWindow:
    """`wall_s`: of all `num_steps`; `host_s`: by the host, where that is longer. `on_device`: kernels must be seen."""
    of_host = chosen & trace.which(Kind.OPERATOR, Kind.ANNOTATION) & trace.named(_OPERATOR)
    rows = np.flatnonzero(of_host)
    outer = around(trace, rows, of_host)
    reason = _empty(trace, rows, max(wall_s, host_s)) or (_why_not(trace, chosen, wall_s) if on_device else None)
    return OperatorWindow(
        num_steps=num_steps,
        wall_s=wall_s / num_steps,
        operators=_costliest(trace, rows, outer, _launched_s(trace, chosen, who) if on_device else None, num_steps),
        num_calls=float(np.sum(outer < 0)) / num_steps,
        complete=reason is None,
        why_not=reason,
        # Half a picture of the device is worse than none.
        **(_figures(trace, chosen, num_steps) if on_device and reason is None else {}),  # type: ignore[arg-type] # one field is none of these
    )


def _launched_s(trace: Trace, chosen: Mask, who: Callers) -> Floats:
    """(N,) seconds of what each operator launched itself."""
    work = np.flatnonzero(chosen & trace.which(*ON_DEVICE))
    operators = who.launched_in(work)
    known = operators >= 0
    return np.bincount(operators[known], (trace.end - trace.start)[work[known]], len(trace.start)).astype(np.float64)


def _costliest(trace: Trace, rows: Ints, outer: Ints, device_s: Floats | None, num_steps: int) -> tuple[Operator, ...]:
    """By the device where there is one and then by the host; each without the time of those that it calls."""
    own_s, callers, called = trace.end - trace.start, outer[outer >= 0], rows[outer >= 0]
    inner_s = np.minimum(trace.end[called], trace.end[callers]) - trace.start[called]
    np.subtract.at(own_s, callers, inner_s)
    numbers: dict[str, int] = {}
    titles = ("compiled graph" if name.startswith(COMPILED) else name for name in trace.names)
    group = np.array([numbers.setdefault(title, len(numbers)) for title in titles])[trace.name[rows]]

    def by_name(values: Floats) -> list[float]:
        return [float(one) / num_steps for one in np.bincount(group, values, len(numbers))]

    calls, self_s = by_name(np.ones(len(rows))), by_name(np.maximum(0.0, own_s[rows]))
    launched_s = None if device_s is None else by_name(device_s[rows])
    found = [
        Operator(
            name=name, per_step=calls[at], self_s=self_s[at], device_s=None if launched_s is None else launched_s[at]
        )
        for name, at in numbers.items()
        if calls[at]
    ]
    found.sort(key=lambda one: (max(one.self_s, one.device_s or 0.0), one.name), reverse=True)
    return tuple(found[:_MAX_OPERATORS])


def _why_not(trace: Trace, chosen: Mask, wall_s: float) -> str | None:
    """Does what the device did agree with itself? The first thing that does not, as a sentence."""
    work, calls = chosen & trace.which(*ON_DEVICE), chosen & trace.which(Kind.RUNTIME)
    launches = np.flatnonzero(calls & trace.where(lambda name: "LaunchKernel" in name))
    missing = int(np.sum(~np.isin(launches, trace.launch[work])))
    if missing > _MAX_DROPPED * len(launches):
        return f"the profiler lost the kernels of {missing} of {len(launches)} launches"
    busy = trace.moments(work)
    if not (work & trace.which(*_KERNELS)).any() or not len(busy):
        return "the profiler saw no kernel on the device"
    busy_s, last = spans.length(busy), float(busy[-1, 1])
    # What was queued when the window ended still belongs to it.
    limit_s = wall_s + max(0.0, last - float(trace.end[calls].max())) if calls.any() else wall_s
    if busy_s > (1 + _TOLERANCE) * limit_s:
        return f"the device was busy for {busy_s:.4g} s of {limit_s:.4g} s"
    return None


def _figures(trace: Trace, chosen: Mask, num_steps: int) -> dict[str, float | None]:
    """By step, and the mean kernel."""
    kernels, device = chosen & trace.which(*_KERNELS), timeline(trace, chosen)
    copying = trace.moments(chosen & trace.which(Kind.COPY) & ~trace.named(_STAYS))
    parts = {
        "device_busy_s": device.busy,
        "copy_s": copying,
        "copy_exposed_s": spans.without(copying, spans.either(device.computing, device.communication)),
    }
    if len(device.communication):
        parts |= {"communication_s": device.communication, "communication_exposed_s": device.exposed_communication}
    return {
        "num_kernels": float(kernels.sum()) / num_steps,
        "kernel_s": float(np.mean((trace.end - trace.start)[kernels])),
        **{name: spans.length(part) / num_steps for name, part in parts.items()},
    }


def _empty(trace: Trace, operators: Ints, wall_s: float) -> str | None:
    if not len(operators):
        return "the profiler saw no operator"
    if wall_s <= 0:
        return "no time passed"
    lasted_s = float(trace.end[operators].max() - trace.start[operators].min())
    return (
        f"operators over {lasted_s:.4g} s in a window of {wall_s:.4g} s"
        if lasted_s > (1 + _TOLERANCE) * wall_s
        else None
    )
