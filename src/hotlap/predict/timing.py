"""The model of time: operators on a device -> seconds; and how far off what is not known of them may be.

Per operator: a gap, computing, and moving bytes. The host dispatches operators while the device works; a step takes as
long as the slower of the two.
"""

import math
from dataclasses import dataclass
from functools import cache

from hotlap.predict.catalogue import USUAL_HZ, Device, devices
from hotlap.predict.precision import Precision, matrix_rate, matrix_units
from hotlap.predict.workload import STEP_OPERATORS, Kind, Workload
from hotlap.record import Phase
from hotlap.record.moments import median

# None of these constants is fitted: fits to all sources but one predict that one no better (docs/predict.md).
# Part of the matrix peak that products of real nets reach on an A100 SXM4 80GB. Large products alone reach 0.8 to 0.9.
PRODUCTS = 0.6
# Bytes from memory for each byte that operators read and write, counted alone: caches save the rest.
MOVED = 0.65
# Of one operator beyond its work.
GAP_S = 5e-6
# Matrix peak over bandwidth (operations a byte), and board power over matrix peak (joules an operation), of that A100.
# With more operations for each byte tiles wait for their operands: products run at the geometric mean of peak and
# bandwidth. With fewer watts for each operation the clock falls. Pairs are predicted equally well by powers from 0.45
# to 0.6, and from 0.2 to 0.25.
BALANCE = 150.0
BALANCE_POWER = 0.5
JOULES_A_FLOP = 400 / 312e12
JOULES_POWER = 0.22
# Bytes a second that one multiprocessor asks of memory beyond its own caches, at the usual clock: what it has in
# flight over the latency of memory. Between 33e9 and 45e9 pairs are predicted equally well. And the part of it under
# mixed precision: kernels hold as many numbers in flight whatever their size, and norms, losses and updates keep FP32.
IN_FLIGHT_BYTES_S = 40e9
MIXED_IN_FLIGHT = 0.75
# Operations that are counted for each that convolutions take on lanes: those of 3x3 need as few as 1 of 2.25
# (Winograd). Between 1.3 and 1.8 pairs are predicted equally well.
CONVOLUTIONS = 1.5
# Part of the FP64 peak that nets reach: 0.65 to 0.79 on GTX 1080 Ti, 2080 Ti and Titan Xp, which have few such units.
FP64_SHARE = 0.75
# What convolutions reach of products on matrix units in half precision: their few channels fill the units less, and
# libraries turn images around for them. Lambda's pairs alone ask for 0.8, those of torchvision for 0.6.
MIXED_CONVOLUTIONS = 0.8
# Bytes that operators read and write for each of FP32: under mixed precision norms, losses, parameters and their
# updates stay in FP32.
BYTES_COUNTED = {Precision.FP16: 0.62, Precision.BF16: 0.62, Precision.FP64: 2.0}
# Conversions that autocast adds for each product of the forward or backward pass: a linear layer converts its input,
# its weight and its bias, and backward their gradients: six for three products.
CASTS_A_PRODUCT = 2.0
# In FP32 a board of which the power is low beside its peak (T4, P4, L4) cannot hold its boost clock: what it needs is
# this part of what boards of its family usually have for each operation, on top of what the board takes idle (a small
# module no more than a third of its power).
NEEDED_POWER = 0.65
IDLE_W = 20.0
# An aten operator on a small tensor on a CPU, dispatch included.
CPU_OPERATOR_S = 3e-6
# Spread (standard deviation of the logarithm) of what is not known. For totals the sizes of operators are assumed.
MEMORY_SIGMA = 0.25
TOTALS_MEMORY_SIGMA = 0.45
# Seconds of host time to dispatch one operator (Python, autograd, launch) where nothing was timed.
HOST_S = 1.5e-5
# Of that; of what was timed beside the script (its own Python comes on top); and between two machines. One H200's host
# takes 2.7 times as long as was forecast from another machine (benchmarks/predict/host.py).
HOST_SIGMA = 0.8
MEASURED_HOST_SIGMA = 0.4
OTHER_HOST_SIGMA = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """How far each lies from the best guess, in standard deviations."""

    memory: float = 0.0
    """Bytes that really travel for each that operators read and write."""
    lanes: float = 0.0
    """Above 1: FP32 products run on lanes, where the precision leaves it open. Three of four scripts use TF32 in them:
    convolutions do unless it is switched off, matrix products in containers and in torch before 1.12."""
    host: float = 0.0
    """Host time of an operator."""
    other_host: float = 0.0
    """That of the target's host beside it."""
    bus: float = 0.0
    """Rate of the links between several GPUs."""

    def host_s(self, workload: Workload) -> float:
        """Seconds of host time for an operator, where the step was measured."""
        sigma = MEASURED_HOST_SIGMA if workload.host_s else HOST_SIGMA
        return (workload.host_s or HOST_S) * math.exp(sigma * self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Seconds of one step, by what takes them: of the device, and of the host beside it."""

    compute: float
    memory: float
    launch: float
    """Gaps between operators."""
    host: float

    @property
    def step_s(self) -> float:
        """The slower of host and device."""
        return max(self.compute + self.memory + self.launch, self.host)

    @property
    def bound_by(self) -> str:
        """What takes most of the time: "compute", "memory", "launch" or "host"."""
        if self.host >= self.step_s:
            return "host"
        return max(("compute", "memory", "launch"), key=lambda name: getattr(self, name))


@cache
def _watts_per_flop(family: str) -> float | None:
    """Board power for each operation a second of FP32 peak, as boards of `family` usually have it."""
    found = [one.power_w / one.fp32 for one in devices() if one.family == family]
    return median(found) if found else None


def sustained(device: Device) -> float:
    """Clock that FP32 work holds, over the boost clock that the board is sold with: what its power limit allows."""
    usual = _watts_per_flop(device.family)
    if usual is None:
        return 1.0
    idle_w = min(IDLE_W, device.power_w / 3)
    return min(1.0, (device.power_w - idle_w) / (NEEDED_POWER * usual * device.fp32))


def compute_rate(device: Device, precision: Precision, kind: Kind, *, tf32: bool) -> float:
    """Operations a second that large operators of `kind` reach on `device`."""
    if precision is Precision.FP64:
        return FP64_SHARE * device.fp64
    vector = device.fp32 * device.fp32_share * sustained(device)
    if kind is Kind.VECTOR:
        return vector
    if peak := matrix_units(device, precision, tf32=tf32):
        reached = _on_matrix_units(device, peak, operand_bytes=2 if precision.mixed else 4)
        return max(reached * (MIXED_CONVOLUTIONS if precision.mixed and kind is Kind.CONV else 1.0), vector)
    lanes = matrix_rate(device, precision, tf32=False) / device.fp32 * vector
    if kind is not Kind.CONV:
        return lanes
    # Without TF32 they are no faster than with it.
    most = compute_rate(device, Precision.TF32, kind, tf32=True) if device.tf32 and lanes <= vector else math.inf
    return min(CONVOLUTIONS * lanes, most)


def _on_matrix_units(device: Device, peak: float, *, operand_bytes: float) -> float:
    """What products of real nets reach of `peak`: less, the further it is above the bandwidth and the power."""
    halves = peak * operand_bytes / 2  # operations a second on operands of two bytes, which need as much of both
    operands = (halves / device.bandwidth / BALANCE) ** -BALANCE_POWER
    watts = (device.power_w * device.accumulated / halves / JOULES_A_FLOP) ** JOULES_POWER
    return peak * float(min(1.0, PRODUCTS * device.matrix_share * operands * watts))


def memory_rate(device: Device, precision: Precision) -> float:
    """Bytes a second that operators reach: one after the other, the bandwidth and what multiprocessors ask for."""
    if device.is_cpu:
        return device.bandwidth
    asked = IN_FLIGHT_BYTES_S * device.units * device.clock_hz / USUAL_HZ
    return 1 / (1 / device.bandwidth + 1 / (asked * (MIXED_IN_FLIGHT if precision.mixed else 1.0)))


def step(workload: Workload, device: Device, *, precision: Precision, host_s: float, off: Off) -> Parts:
    """Seconds of one step on `device`, computed in `precision`, with `host_s` of host time for each operator."""
    work, num_operators = workload.operators, workload.num_kernels
    if precision.mixed and not workload.precision.mixed and not workload.totals_only:
        num_operators += CASTS_A_PRODUCT * math.fsum(one.count for one in work if one.kind is not Kind.VECTOR)
    # More for the host than the device has, as the loop around a training step takes time too.
    trains = any(one.stage in (Phase.BACKWARD, Phase.OPTIMIZER) for one in work)
    num_dispatched = num_operators + (STEP_OPERATORS if trains else 0)
    sigma = TOTALS_MEMORY_SIGMA if workload.totals_only else MEMORY_SIGMA
    moved_bytes = workload.memory_bytes * math.exp(sigma * off.memory)
    moved_bytes *= BYTES_COUNTED.get(precision, 1.0) / BYTES_COUNTED.get(workload.precision, 1.0)
    # Convolutions use TF32 unless a script switches it off (torch.backends.cudnn.allow_tf32).
    tf32 = off.lanes <= 1 if workload.matmul_tf32 is None else workload.matmul_tf32
    rates = {kind: compute_rate(device, precision, kind, tf32=tf32 or kind is Kind.CONV) for kind in Kind}
    return Parts(
        compute=math.fsum(one.flop * one.count / rates[one.kind] for one in work),
        memory=moved_bytes * MOVED / memory_rate(device, precision),
        launch=num_operators * (CPU_OPERATOR_S if device.is_cpu else GAP_S),
        host=0.0 if device.is_cpu else num_dispatched * host_s,
    )
