"""What ran under a profiler in some steps: operators, kernels by what they compute, the device's time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One kind of operator in the operator window."""

    name: str
    """"aten::addmm"."""
    per_step: float
    """Calls a step."""
    self_s: float
    """Seconds a step on the host, without what it calls."""
    device_s: float | None = None
    """Seconds a step on the device; None on the CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWork:
    """Kernels, copies or collectives of one kind."""

    name: str
    """"convolutions", "Memcpy HtoD (Pageable -> Device)", "AllReduce"."""
    device_s: float
    """Seconds a step, each counted alone."""
    hidden_s: float
    """Of these, of copies and collectives, beside a kernel that computes; of copies also beside one that communicates.
    """
    per_step: float
    num_bytes: float
    """A step; 0 where not told."""


NO_OPERATORS = "No operators were seen"
"""Begins the note of a run that has no window of operators; the reason follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWindow:
    """A few steps under torch's profiler. Not timed: the profiler itself costs.

    Times are per step. None: there is no device, or it could not be seen.
    """

    num_steps: int
    wall_s: float
    """Of a step, under the profiler."""
    operators: tuple[Operator, ...]
    """Costliest first; at most 40."""
    num_calls: float
    """Operators a step that were called directly, not from within another."""
    dispatch_s: float | None = None
    """What one small operator on the CPU costs under no profiler."""
    flops: float | None = None
    """Of a step, where all heavy operators were counted."""
    moved_bytes: float | None = None
    """Read and written by operators, a step."""
    num_kernels: float | None = None
    kernel_s: float | None = None
    """Mean length of a kernel."""
    device_busy_s: float | None = None
    """Union of all kernels and copies."""
    idle_s: Mapping[str, float] = field(default_factory=dict)
    """What the device waited for while it was idle -> seconds a step; empty where only a trace would tell."""
    held_up: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of these reasons, by name: operators, or lines of the user's source, that the host was in meanwhile, and those
    whose kernels came next -> seconds a step; costliest first, and no more than the trace names."""
    copy_s: float | None = None
    """Union of copies between host and device."""
    copy_exposed_s: float | None = None
    """Of these, while no kernel ran."""
    tensor_core_share: float | None = None
    """Part of the matrix kernels' time in kernels that use tensor cores."""
    communication_s: float | None = None
    communication_exposed_s: float | None = None
    work: tuple[DeviceWork, ...] = ()
    """By kind, costliest first; empty where only a trace would tell."""
    copies: tuple[DeviceWork, ...] = ()
    """By kind, costliest first; empty where only a trace would tell."""
    collectives: tuple[DeviceWork, ...] = ()
    """By kind, costliest first; empty where only a trace would tell."""
    recomputed_s: float | None = None
    """Kernels of the forward pass that the backward pass ran again; of a training on the CPU operators."""
    complete: bool = True
    """The window agrees with itself: its sums with the events and the wall."""
    why_not: str | None = None
    """If it is not complete: what was seen."""
