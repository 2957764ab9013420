"""Workload and device -> the step there, as a `Prediction` with an 80% interval."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from hotlap.errors import UserError
from hotlap.predict import beliefs, links, memory, scaling, timing
from hotlap.predict.beliefs import Beliefs
from hotlap.predict.catalogue import Device, Match, resolve
from hotlap.predict.precision import Precision, matrix_rate, parse
from hotlap.predict.timing import Array, Parts
from hotlap.predict.workload import Workload
from hotlap.record import Interval, Prediction
from hotlap.units import percent, size

LOW, MID, HIGH = 0.10, 0.50, 0.90
# No interval is narrower than this on either side of the middle.
LEAST_WIDTH = 0.02
# Half an 80% interval in standard deviations.
HALF = 1.2816
# A step takes so much longer than its operators, and spreads so much on top of its draws: median and four fifths of the
# measured ones, each net once; without any one source the factor is 1.3 to 1.7, without depthwise convolutions 1.25.
UNMODELLED = 1.3
UNMEASURED_SIGMA = 0.45
# Standard deviation of the logarithm that a pair of devices adds: of one architecture in one precision, on FP32 lanes,
# or any other; and another batch than was measured, for each factor of e (benchmarks/predict/calibrate.py).
SPREAD = {"same": 0.05, "lanes": 0.16, "other": 0.09, "batch": 0.14}
# A step measured on a CPU says how much work there is, but little of how a GPU will do it.
CPU_WEIGHT = 0.25
CPU_SIGMA = 0.45
# Part of the slot's nominal rate at which a batch reaches the device (pinned memory reaches 0.8, pageable 0.4).
TRANSFER_SHARE = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One forecast, its names resolved."""

    workload: Workload
    target: Device
    count: int
    precision: Precision
    here: Device | None
    measured_step_s: float | None
    interconnect: str | None
    strong: bool
    batch_factor: float
    assumptions: tuple[str, ...]

    @property
    def factor(self) -> float:
        """Of the workload's batch, what one of the GPUs has."""
        return self.batch_factor / (self.count if self.strong else 1)

    @property
    def share(self) -> Workload:
        """What one of the GPUs does."""
        return self.workload if self.factor == 1 else self.workload.scaled(self.factor)


def forecast(  # noqa: PLR0913 - the arguments are the public question, all but one by name
    workload: Workload,
    *,
    target: str,
    count: int = 1,
    precision: str | Precision | None = None,
    measured_on: str | None = None,
    measured_step_s: float | None = None,
    interconnect: str | None = None,
    strong: bool = False,
    batch_factor: float = 1.0,
    devices: Iterable[Device] = (),
) -> Prediction:
    """What one step of `workload` takes on `count` GPUs called `target`.

    Arguments:
        workload: of one process; with several GPUs each has this batch, unless `strong`.
        target: a name of the catalogue, as people or drivers write it.
        count: GPUs of one machine, trained data-parallel.
        precision: to compute in there; None: the workload's own (what its autocast asks of a GPU).
        measured_on: device on which the same step was measured, in the workload's own precision.
        measured_step_s: the step there, in seconds, on one device.
        interconnect: "nvlink", "pcie" or "pcie-no-p2p"; None: what such machines usually have.
        strong: several GPUs share the batch of one (strong scaling) instead of having it each.
        batch_factor: times the workload's batch, where memory there asks for another; the step is of that batch.
        devices: of the user (see `own_devices.load`).

    Returns:
        Step time with an 80% interval. Its `assumptions` say what was taken for granted.

    Raises:
        UserError: a name is not known, or a figure makes no sense.
    """
    extra = tuple(devices)
    there = resolve(target, extra=extra)
    here = _measured(measured_on, measured_step_s, extra)
    if count < 1:
        raise UserError(f"count = {count}: at least one GPU is needed.")
    if not (math.isfinite(batch_factor) and batch_factor > 0):
        raise UserError(f"batch_factor = {batch_factor} is not a number above 0.")
    if count > 1 and there.device.kind == "cpu":
        raise UserError("Several CPUs are not predicted; --count applies to GPUs.")
    own = workload.gpu_precision if there.device.kind == "gpu" else workload.precision
    wanted = parse(precision) if precision is not None else own
    if not workload.precision_known:
        workload = replace(workload, precision=wanted)
    notes = [match.assumption for match in (there, here) if match is not None and match.assumption]
    question = _Question(
        workload=workload,
        target=there.device,
        count=count,
        precision=wanted,
        here=here.device if here is not None else None,
        measured_step_s=measured_step_s,
        interconnect=interconnect,
        strong=strong,
        batch_factor=batch_factor,
        assumptions=(*notes, *_from_cpu(here, there.device), *_assumed(workload, there.device, wanted)),
    )
    return _answer(question)


def _measured(name: str | None, step_s: float | None, extra: tuple[Device, ...]) -> Match | None:
    if (name is None) != (step_s is None):
        raise UserError("measured_on and measured_step_s belong together: give both or neither.")
    if name is None or step_s is None:
        return None
    if not math.isfinite(step_s) or step_s <= 0:
        raise UserError(f"measured_step_s = {step_s} is not a step time.")
    return resolve(name, extra=extra)


def _assumed(workload: Workload, device: Device, precision: Precision) -> list[str]:
    notes = list(workload.notes)
    if workload.totals_only:
        notes.append("only totals are known: sizes of single operators are assumed")
    if precision is workload.autocast:
        notes.append(f"autocast computes in {precision} there, as the script asks; here it could not")
    if precision is Precision.BF16 and device.kind == "gpu" and not device.bf16:
        notes.append(f"{device.name} has no bfloat16 unit: matrix products run in FP32")
    if precision is Precision.FP32 and device.tf32 > 1.1 * device.fp32 and workload.matmul_tf32 is None:
        notes.append("TF32 may be used (torch's default for convolutions); say fp32-ieee or tf32 to settle it")
    if workload.input_s is None:
        notes.append("batches are ready when they are needed")
    return notes


def _from_cpu(here: Match | None, target: Device) -> list[str]:
    if here is None or here.device.kind != "cpu" or target.kind != "gpu":
        return []
    return [
        "the step was measured on a CPU, which says little of how a GPU does it: the interval is wide; a time of this "
        "step on any GPU, your own or a published one (--measured-on NAME --measured-step TIME), or a trace of it from "
        "one (--trace FILE) narrows it"
    ]


def _answer(question: _Question) -> Prediction:
    believed = beliefs.prior(question.workload)
    one = _one_device(question, believed)
    step_s, notes = _several(question, believed, one.step_s)
    low, mid, high = np.quantile(np.log(step_s), (LOW, MID, HIGH))
    # Two causes that know nothing of each other: what is not known of the workload, and of the pair of devices.
    low = mid - math.hypot(mid - low, HALF * one.spread)
    high = mid + math.hypot(high - mid, HALF * one.spread)
    need = memory.need(question.share, precision=question.precision)
    return Prediction(
        device=question.target.name,
        count=question.count,
        step_s=Interval(
            low=math.exp(min(low, mid - LEAST_WIDTH)),
            mid=math.exp(mid),
            high=math.exp(max(high, mid + LEAST_WIDTH)),
        ),
        bound_by=_bound_by(question, one, step_s),
        efficiency=float(np.median(one.step_s / step_s)),
        fits=None if need is None else need.fits(question.target),
        assumptions=(*question.assumptions, *notes, *_room(question, need)),
    )


def _room(question: _Question, need: memory.Need | None) -> Iterator[str]:
    """If it does not fit: by how much, and what would help."""
    target = question.target
    if need is None or need.fits(target):
        return
    yield f"{target.name} has {size(target.memory)}, and {size(need.total)} are needed"
    factor = memory.largest_batch_factor(question.share, target, precision=question.precision)
    if factor:
        yield f"it would fit with {percent(factor)} of the batch, or with activations recomputed"
    sharded = memory.need(question.share, precision=question.precision, shards=question.count)
    if question.count > 1 and sharded is not None:
        verdict = "fits" if sharded.fits(target) else "does not fit either"
        yield f"FSDP over {question.count} GPUs would need {size(sharded.total)} on each, which {verdict}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    """What one target does."""

    parts: Parts
    step_s: Array
    """(D,)"""
    spread: float
    """Of logarithms, on top of that of the draws."""


def _one_device(question: _Question, believed: Beliefs) -> _One:
    workload, target, here = question.workload, question.target, question.here
    parts = timing.step(
        timing.sums(question.share),
        target,
        precision=question.precision,
        draws=believed.there,
        byte_factor=timing.byte_factor(workload.precision, question.precision),
    )
    if here is None or question.measured_step_s is None:
        there_s = _with_input(UNMODELLED * parts.step_s, question.share, target)
        return _One(parts=parts, step_s=there_s, spread=UNMEASURED_SIGMA)
    here_parts = timing.step(timing.sums(workload), here, precision=workload.precision, draws=believed.here)
    ratio = question.measured_step_s / _with_input(here_parts.step_s, workload, here)
    if here.kind == "cpu" and target.kind == "gpu":
        there_s = _with_input(UNMODELLED ** (1 - CPU_WEIGHT) * parts.step_s, question.share, target)
        return _One(parts=parts, step_s=there_s * ratio**CPU_WEIGHT, spread=CPU_SIGMA)
    parts = _carried(question, here, parts, believed)
    there_s = _with_input(parts.step_s, question.share, target) * ratio
    if here == target and workload.precision is question.precision and question.share is workload:
        # The same model of device: what was measured is the answer, but for another machine around it.
        there_s = np.full_like(there_s, question.measured_step_s)
    return _One(parts=parts, step_s=there_s, spread=_spread(question, here))


def _carried(question: _Question, here: Device, there: Parts, believed: Beliefs) -> Parts:
    """What the model says of the target, less its boldness: see `timing.carried`."""
    recorded, wanted, draws = question.workload.precision, question.precision, believed.here

    def plain(*, tf32: bool) -> float:
        rate_here = timing.plain_rate(here, recorded, tf32=tf32)
        rate_there = timing.plain_rate(question.target, wanted, tf32=tf32)
        return rate_here / rate_there * math.sqrt(timing.byte_factor(recorded, wanted))

    same_work = timing.step(timing.sums(question.share), here, precision=recorded, draws=draws)
    return timing.carried(there, same_work, np.where(draws.tf32, plain(tf32=True), plain(tf32=False)))


def _spread(question: _Question, here: Device) -> float:
    """Standard deviation of the logarithm that this pair of devices and batches adds."""
    there, tf32 = question.target, question.workload.matmul_tf32 is not False
    lanes = (
        matrix_rate(here, question.workload.precision, tf32=tf32) < 1.1 * here.fp32
        and matrix_rate(there, question.precision, tf32=tf32) < 1.1 * there.fp32
    )
    alike = here.family == there.family and question.workload.precision is question.precision
    pair = SPREAD["same" if alike else "lanes" if lanes else "other"]
    return math.hypot(pair, SPREAD["batch"] * math.log(question.factor))


def _with_input(step_s: Array, workload: Workload, device: Device) -> Array:
    """The step with its batch: made by workers beside the training, or before each step; then sent."""
    if device.kind == "gpu" and workload.batch_bytes and device.pcie_bytes_s:
        step_s = step_s + workload.batch_bytes / (TRANSFER_SHARE * device.pcie_bytes_s)
    if workload.input_s is None:
        return step_s
    if workload.input_workers:
        return np.maximum(step_s, workload.input_s / workload.input_workers)
    return step_s + workload.input_s


def _several(question: _Question, believed: Beliefs, one_s: Array) -> tuple[Array, tuple[str, ...]]:
    """(D,) seconds of a step on all GPUs, and what was assumed of their connection."""
    if question.count == 1:
        return one_s, ()
    gradients = question.workload.gradient_bytes
    shared = f"{question.count} GPUs share the batch of one (strong scaling)"
    each = f"each of {question.count} GPUs has the batch of one (weak scaling)"
    notes: tuple[str, ...] = (shared if question.strong else each,)
    if gradients is None:
        # A step does about six operations for each parameter and sample; without a batch size that says nothing.
        raise UserError("The workload does not say how many bytes its parameters have; give parameter_bytes.")
    if question.workload.input_s is not None:
        notes += ("each GPU has a loader of its own, as fast as the one here",)
    over = links.fabric(question.target, question.count, interconnect=question.interconnect)
    if question.count > 8:
        notes += ("more than eight GPUs are taken as one machine of the same kind: a network would be slower",)
    all_s = scaling.together(one_s, gradient_bytes=gradients, count=question.count, over=over, chance=believed.chance)
    return all_s, (*notes, *over.assumptions)


def _bound_by(question: _Question, one: _One, step_s: Array) -> str:
    if float(np.mean(step_s / one.step_s)) > 1.5:
        return "communication"
    workload = question.workload
    if workload.input_s is not None:
        waited = workload.input_s / max(workload.input_workers or 1, 1)
        if waited > float(one.parts.step_s.mean()):
            return "input"
    return one.parts.bound_by
