"""Workload and device -> the step there, as a `Prediction` with an 80% interval."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

from hotlap.errors import UserError
from hotlap.predict import links, memory, timing
from hotlap.predict.catalogue import Device, Match, resolve
from hotlap.predict.precision import Precision, matrix_units, parse
from hotlap.predict.timing import Off, Parts
from hotlap.predict.workload import Workload
from hotlap.record import Interval, Prediction

# Half an 80% interval in standard deviations.
HALF = 1.2816
# A step takes so much longer than its operators, and spreads so much on top of what is not known: between the median
# of the measured ones (1.7, each net once) and that of large trainings on an H200 of ours (1.05); and four fifths.
UNMODELLED = 1.4
UNMEASURED_SIGMA = 0.45
# Standard deviation of the logarithm that a pair of devices adds: at least, and times how far they are `apart`; and
# what half precision adds where the measured step had TF32, or ran on lanes (benchmarks/predict/calibrate.py).
SPREAD = {"least": 0.05, "apart": 0.07, "halved": 0.12, "halved lanes": 0.24}
# A step measured on a CPU says how much work there is, but little of how a GPU will do it.
CPU_WEIGHT = 0.25
# Part of the slot's nominal rate at which a batch reaches the device (pinned memory reaches 0.8, pageable 0.4).
TRANSFER_SHARE = 0.6
FROM_CPU = (
    "the step was measured on a CPU, which says little of how a GPU does it: the interval is wide; a time of this step "
    "on any GPU, your own or a published one (--measured-on NAME --measured-step TIME) narrows it"
)
FROM_OTHER_HOST = "what a call costs the host beside the target is not known, and differs threefold between machines"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One forecast, its names resolved."""

    workload: Workload
    share: Workload
    """What one of the GPUs does."""
    target: Device
    count: int
    precision: Precision
    here: Device | None
    measured_step_s: float
    """Of one device; 0 where none was measured."""
    over: links.Fabric | None
    """Between several GPUs."""


def forecast(
    workload: Workload,
    *,
    target: str | Device,
    count: int = 1,
    precision: str | Precision | None = None,
    measured_on: str | Device | None = None,
    measured_step_s: float | None = None,
    interconnect: str | None = None,
    batch_factor: float = 1.0,
) -> Prediction:
    """What one step of `workload` takes on `count` GPUs called `target`.

    Arguments:
        workload: of one process; with several GPUs each has this batch.
        target: a name of the catalogue, as people or drivers write it, or a device of your own.
        count: GPUs of one machine, trained data-parallel.
        precision: to compute in there; None: the workload's own (what its autocast asks of a GPU).
        measured_on: device on which the same step was measured, in the workload's own precision.
        measured_step_s: the step there, in seconds, on one device.
        interconnect: "nvlink", "pcie" or "pcie-no-p2p"; None: what such machines usually have.
        batch_factor: times the workload's batch, where memory there asks for another; the step is of that batch.

    Returns:
        Step time with an 80% interval. Its `assumptions` say what was taken for granted.

    Raises:
        UserError: a name is not known, or a figure makes no sense.
    """
    workload, there, here = workload.validated(), resolve(target), _measured(measured_on, measured_step_s)
    if not (count >= 1 and count % 1 == 0):
        raise UserError(f"count = {count} is not a number of GPUs.")
    if not (math.isfinite(batch_factor) and batch_factor > 0):
        raise UserError(f"batch_factor = {batch_factor} is not a number above 0.")
    own = workload.precision if there.device.is_cpu else workload.autocast or workload.precision
    wanted = own if precision is None else parse(precision)
    question = _Question(
        workload=workload,
        share=workload if batch_factor == 1 else workload.scaled(batch_factor),
        target=there.device,
        count=count,
        precision=wanted,
        here=here.device if here else None,
        measured_step_s=measured_step_s or 0.0,
        over=links.fabric(there.device, count, interconnect) if count > 1 else None,
    )
    parts, one_s, all_s = _step(question, Off())
    spread = _spread(question, question.measured_step_s * batch_factor / one_s)
    # Two causes that know nothing of each other: what is not known of the workload, and of the pair of devices.
    below, above = (math.hypot(half, HALF * spread) for half in _halves(question, math.log(all_s)))
    bound_by = "communication" if all_s > 1.5 * one_s else _bound_by(question, parts, one_s)
    return Prediction(
        device=there.device.name,
        count=count,
        step_s=Interval(low=all_s * math.exp(-below), mid=all_s, high=all_s * math.exp(above)),
        bound_by=bound_by,
        efficiency=one_s / all_s,
        fits=memory.fits(question.share, there.device, precision=wanted),
        assumptions=(
            *(match.assumption for match in (there, here) if match and match.assumption),
            *_assumed(question),
            *_several(question),
            *((FROM_OTHER_HOST,) if bound_by == "host" else ()),
        ),
    )


def _measured(name: str | Device | None, step_s: float | None) -> Match | None:
    if (name is None) != (step_s is None):
        raise UserError("measured_on and measured_step_s belong together: give both or neither.")
    if name is None or step_s is None:
        return None
    if not math.isfinite(step_s) or step_s <= 0:
        raise UserError(f"measured_step_s = {step_s} is not a step time.")
    return resolve(name)


def _assumed(question: _Question) -> Iterator[str]:
    workload, device, precision = question.workload, question.target, question.precision
    if question.here and question.here.is_cpu:
        yield FROM_CPU
    yield from workload.notes
    if workload.totals_only:
        yield "only totals are known: sizes of single operators are assumed"
    if precision is workload.autocast:
        yield f"autocast computes in {precision} there, as the script asks; here it could not"
    if precision is Precision.BF16 and not device.bf16 and not device.is_cpu:
        yield f"{device.name} has no bfloat16 unit: matrix products run in FP32"
    if precision is Precision.FP32 and device.tf32 > 1.1 * device.fp32 and workload.matmul_tf32 is None:
        yield "TF32 may be used (torch's default for convolutions); say fp32-ieee or tf32 to settle it"
    if workload.input_s is None:
        yield "batches are ready when they are needed"


def _halves(question: _Question, best: float) -> tuple[float, float]:
    """Half of the 80% interval of the logarithm of the step, below and above its `best` guess: what each that is not
    known moves it by alone; causes that know nothing of each other add up in squares."""
    ends = [
        [math.log(_step(question, Off(**{one.name: side}))[-1]) - best for side in (-HALF, HALF)] for one in fields(Off)
    ]
    return math.hypot(*(min(0.0, *end) for end in ends)), math.hypot(*(max(0.0, *end) for end in ends))


def _step(question: _Question, off: Off) -> tuple[Parts, float, float]:
    """The step there, if what is not known is so far off: its parts, seconds on one device, and on all."""
    workload, target, here = question.workload, question.target, question.here
    host_s = off.host_s(workload)
    # Another precision of a training that was measured on this device is asked about the same machine.
    there_host_s = host_s * (1.0 if here == target else math.exp(timing.OTHER_HOST_SIGMA * off.other_host))
    parts = timing.step(question.share, target, precision=question.precision, host_s=there_host_s, off=off)
    step_s, ratio = UNMODELLED * parts.step_s, 1.0
    if here is not None:
        here_parts = timing.step(workload, here, precision=workload.precision, host_s=host_s, off=off)
        ratio = question.measured_step_s / _with_input(here_parts.step_s, workload, here)
        step_s = parts.step_s
        if here.is_cpu and here != target:  # its input and Python are known, whatever it says of a GPU
            step_s, ratio = UNMODELLED ** (1 - CPU_WEIGHT) * ratio**CPU_WEIGHT * step_s, 1.0
    one_s = _with_input(step_s, question.share, target) * ratio
    all_s = one_s
    if question.over is not None:
        weights = workload.parameter_bytes or 0.0
        all_s = links.together(one_s, gradient_bytes=weights, count=question.count, over=question.over, off=off)
    return parts, one_s, all_s


def _spread(question: _Question, faster: float) -> float:
    """Standard deviation of the logarithm that this pair of devices and precisions adds, if an item is so many times
    faster there."""
    here = question.here
    if here is None or here.is_cpu:
        return UNMEASURED_SIGMA
    there, measured_in, tf32 = question.target, question.workload.precision, question.workload.matmul_tf32 is not False
    asked = ((here, measured_in), (there, question.precision))
    on_lanes = [not matrix_units(device, precision, tf32=tf32) for device, precision in asked]
    unlike = here.family != there.family and (all(on_lanes) or question.precision.mixed)
    pair = max(SPREAD["least"], SPREAD["apart"] * apart(here, there, faster) * (2 if unlike else 1))
    if measured_in.mixed == question.precision.mixed:
        return pair
    return math.hypot(pair, SPREAD["halved lanes" if on_lanes[0] else "halved"])


def apart(here: Device, there: Device, faster: float) -> float:
    """How far two devices are apart: the root of how much faster one is, and of how much more bandwidth its
    multiprocessors have, as of many small differences that add up; and as much again as for e times the speed where one
    is older than TF32: from Ampere on operands come past the registers, and libraries have other kernels."""
    share = here.bandwidth / here.units / (there.bandwidth / there.units)
    return math.sqrt(abs(math.log(faster)) + abs(math.log(share)) + (bool(here.tf32) != bool(there.tf32)))


def _with_input(step_s: float, workload: Workload, device: Device) -> float:
    """The step with the script's own Python, and with its batch: made by workers beside the training, or before each
    step; then sent."""
    step_s += workload.python_s
    if workload.batch_bytes and device.pcie_bytes_s:
        step_s += workload.batch_bytes / (TRANSFER_SHARE * device.pcie_bytes_s)
    if workload.input_workers:
        return max(step_s, (workload.input_s or 0.0) / workload.input_workers)
    return step_s + (workload.input_s or 0.0)


def _several(question: _Question) -> Iterator[str]:
    """What is assumed of several GPUs."""
    count, over = question.count, question.over
    if over is None:
        return
    if question.workload.parameter_bytes is None:
        # A step does about six operations for each parameter and sample; without a batch size that says nothing.
        raise UserError("The workload does not say how many bytes its parameters have; give parameter_bytes.")
    yield f"each of {count} GPUs has the batch of one (weak scaling)"
    if question.workload.input_s is not None:
        yield "each GPU has a loader of its own, as fast as the one here"
    if count > 8:
        yield "more than eight GPUs are taken as one machine of the same kind: a network would be slower"
    if over.assumption:
        yield over.assumption


def _bound_by(question: _Question, parts: Parts, one_s: float) -> str:
    """What takes most of the step on one device."""
    python_s, input_s, workers = question.share.python_s, question.share.input_s or 0.0, question.share.input_workers
    if workers:  # beside the training, not before each step
        if input_s / workers > parts.step_s:
            return "input"
        input_s = 0.0
    longest_s, longest = max((python_s, "python"), (input_s, "input"))
    return longest if longest_s > one_s - python_s - input_s else parts.bound_by
