"""Events of a profiler -> what the operators of a step cost, and what its device did.

A kernel shares the `id` of the call that launched it, and names the operator that this call was made in. Lists may be
empty, overlap, or lack what the profiler dropped (pytorch#192021): the result then says that it is not complete.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hotlap.record import Operator, OperatorWindow
from hotlap.trace import spans
from hotlap.trace.spans import Spans
from hotlap.trace.table import Kind

# Operators told; in real steps the first ten hold nearly all of the time.
_MAX_OPERATORS = 40

# Launches whose kernels are missing: below this a launch at the window's edge explains it.
_MAX_DROPPED = 0.02

# The device's time may exceed the host's by rounding and clock conversion, not by more than this.
_TOLERANCE = 0.05

_OPERATOR = re.compile(r"(?!torch::autograd::|autograd::)\w+::\w")
COMPILED = "## Call CompiledFxGraph"
"""So begins the name of a graph of torch.compile, which is one call here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event; seconds by any clock that all share. MEMSET: also a copy that never leaves the device."""

    name: str
    kind: Kind
    begin_s: float
    end_s: float
    lane: int = 0
    """Thread on the host, stream on the device."""
    id: int = 0
    """Of an operator: its own. Of a call of the runtime, and of what runs for it: the same number."""
    operator: int = 0
    """Of what runs on the device: `id` of the operator that launched it; 0 if unknown."""


def is_operator(name: str) -> bool:
    """True for "aten::mm" and a graph of torch.compile; False for autograd's frames around operators."""
    return _OPERATOR.match(name) is not None or name.startswith(COMPILED)


def aggregate(
    events: Iterable[Event], *, num_steps: int, wall_s: float, host_s: float = 0.0, on_device: bool
) -> OperatorWindow:
    """`wall_s`: of all `num_steps`; `host_s`: by the host, where that is longer. `on_device`: kernels must be seen."""
    # One that ends before it begins was never written to its end.
    events = [event for event in events if event.end_s >= event.begin_s]
    host = _Host([event for event in events if event.kind is Kind.OPERATOR])
    device = _Device(events) if on_device else None
    kernels_of = device.seconds_by_operator() if device else {}
    operators = host.operators(kernels_of, num_steps=num_steps, on_device=on_device)
    reason = _empty(host, max(wall_s, host_s)) or (device.why_not(wall_s=wall_s) if device else None)
    return OperatorWindow(
        num_steps=num_steps,
        wall_s=wall_s / num_steps,
        operators=operators,
        num_calls=host.num_calls / num_steps,
        complete=reason is None,
        why_not=reason,
        # Half a picture of the device is worse than none.
        **(device.figures(num_steps) if device and reason is None else {}),  # type: ignore[arg-type] # one field is none of these
    )


class _Host:
    """Operators on the host: who called whom, by their nesting in time."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.num_calls = 0
        self._self_s = [event.end_s - event.begin_s for event in events]
        lanes: dict[int, list[int]] = defaultdict(list)
        for i, event in enumerate(events):
            lanes[event.lane].append(i)
        for lane in lanes.values():
            self._nest(lane)

    def _nest(self, lane: list[int]) -> None:
        events = self.events
        # Of two that begin together the longer one is the caller.
        lane.sort(key=lambda i: (events[i].begin_s, -events[i].end_s))
        open_: list[int] = []
        for i in lane:
            while open_ and events[open_[-1]].end_s <= events[i].begin_s:
                open_.pop()
            if open_:
                inner_s = min(events[i].end_s, events[open_[-1]].end_s) - events[i].begin_s
                self._self_s[open_[-1]] = max(0.0, self._self_s[open_[-1]] - max(0.0, inner_s))
            else:
                self.num_calls += 1
            open_.append(i)

    def operators(self, kernels_of: dict[int, float], *, num_steps: int, on_device: bool) -> tuple[Operator, ...]:
        """Costliest first, by the device where there is one and then by the host."""
        calls: dict[str, int] = defaultdict(int)
        self_s: dict[str, float] = defaultdict(float)
        device_s: dict[str, float] = defaultdict(float)
        for event, seconds in zip(self.events, self._self_s, strict=True):
            name = "compiled graph" if event.name.startswith(COMPILED) else event.name
            calls[name] += 1
            self_s[name] += seconds
            device_s[name] += kernels_of.get(event.id, 0.0)
        costliest = sorted(calls, key=lambda name: (max(self_s[name], device_s[name]), name), reverse=True)
        return tuple(
            Operator(
                name=name,
                per_step=calls[name] / num_steps,
                self_s=self_s[name] / num_steps,
                device_s=device_s[name] / num_steps if on_device else None,
            )
            for name in costliest[:_MAX_OPERATORS]
        )


class _Device:
    """Kernels, copies, and the calls that launched them."""

    def __init__(self, events: list[Event]) -> None:
        def of(*kinds: Kind) -> list[Event]:
            return [event for event in events if event.kind in kinds]

        self._launches = {event.id: event for event in of(Kind.RUNTIME)}
        self._computes, self._talks, self._copies = of(Kind.KERNEL), of(Kind.COMMUNICATION), of(Kind.COPY)
        self._work = [*self._computes, *self._talks, *self._copies, *of(Kind.MEMSET)]
        self._busy = _spans(self._work)

    def seconds_by_operator(self) -> dict[int, float]:
        found: dict[int, float] = defaultdict(float)
        for event in self._work:
            found[event.operator] += event.end_s - event.begin_s
        found.pop(0, None)
        return found

    def why_not(self, *, wall_s: float) -> str | None:
        """Does the window agree with itself? The first thing that does not, as a sentence."""
        launches = {i for i, event in self._launches.items() if "LaunchKernel" in event.name}
        missing = len(launches - {event.id for event in self._work})
        if missing > _MAX_DROPPED * len(launches):
            return f"the profiler lost the kernels of {missing} of {len(launches)} launches"
        if not (self._computes or self._talks) or not len(self._busy):
            return "the profiler saw no kernel on the device"
        busy_s, last = spans.length(self._busy), float(self._busy[-1, 1])
        # What was queued when the window ended still belongs to it.
        host_end = max((event.end_s for event in self._launches.values()), default=last)
        limit_s = wall_s + max(0.0, last - host_end)
        if busy_s > (1 + _TOLERANCE) * limit_s:
            return f"the device was busy for {busy_s:.4g} s of {limit_s:.4g} s"
        return None

    def figures(self, num_steps: int) -> dict[str, float | None]:
        kernels = [*self._computes, *self._talks]
        computing, talking, copying = map(_spans, (self._computes, self._talks, self._copies))
        exposed_copies = spans.without(copying, spans.either(computing, talking))
        talks = bool(self._talks)
        return {
            "num_kernels": len(kernels) / num_steps,
            "kernel_s": sum(event.end_s - event.begin_s for event in kernels) / len(kernels) if kernels else None,
            "device_busy_s": spans.length(self._busy) / num_steps,
            "copy_s": spans.length(copying) / num_steps,
            "copy_exposed_s": spans.length(exposed_copies) / num_steps,
            "communication_s": spans.length(talking) / num_steps if talks else None,
            "communication_exposed_s": spans.length(spans.without(talking, computing)) / num_steps if talks else None,
        }


def _empty(host: _Host, wall_s: float) -> str | None:
    if not host.events:
        return "the profiler saw no operator"
    if wall_s <= 0:
        return "no time passed"
    begun, ended = min(e.begin_s for e in host.events), max(e.end_s for e in host.events)
    if ended - begun > (1 + _TOLERANCE) * wall_s:
        return f"operators over {ended - begun:.4g} s in a window of {wall_s:.4g} s"
    return None


def _spans(events: Iterable[Event]) -> Spans:
    both = np.array([(event.begin_s, event.end_s) for event in events]).reshape(-1, 2)
    return spans.union(both[:, 0], both[:, 1])
