"""What else can be predicted from a workload: levers on that device, energy and price, where FSDP shards memory.

Each is a ratio of two forecasts that share their draws, so what is not known of the workload mostly cancels.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from hotlap.predict import beliefs, memory, timing
from hotlap.predict.catalogue import Device, resolve
from hotlap.predict.precision import Precision
from hotlap.predict.timing import Array, Draws
from hotlap.predict.workload import Kind, Stage, Workload
from hotlap.record import Interval, Prediction

# Part of the board power that a training step draws: idle plus what is busy.
POWER_SHARE = 0.8
# Spread that a lever's effect has between scripts beyond what the model of time knows.
LEVER_SIGMA = 0.10
# Elementwise chains fuse under the compiler; about this part of their traffic and operators stays.
COMPILED_BYTES = 0.55
COMPILED_OPERATORS = 0.45
FUSED_OPTIMIZER_BYTES = 0.5
# Kinds that a compiler fuses into their neighbours.
FUSIBLE = frozenset({Kind.ELEMENTWISE, Kind.NORM, Kind.SOFTMAX, Kind.REDUCTION, Kind.COPY})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverOutlook:
    """What a change would give on a device: samples a second over those of today, as an 80% interval."""

    lever: str
    speedup: Interval
    slower_chance: float
    """Probability that it gets slower, in [0, 1]."""


def levers(
    workload: Workload,
    *,
    target: str,
    devices: Iterable[Device] = (),
    measured: tuple[str, float] | None = None,
) -> tuple[LeverOutlook, ...]:
    """What levers would give on `target`, best first.

    Arguments:
        measured: device and seconds of the step of today: draws that explain it badly count less.
    """
    extra = tuple(devices)
    device = resolve(target, extra=extra).device
    drawn = beliefs.prior(workload)
    draws = drawn.there()
    weights = _weights(workload, measured, extra, drawn)
    before_s = _step_s(workload, device, workload.gpu_precision, draws)
    found = []
    for name, after_s in _tried(workload, device, draws):
        ratio = np.log(before_s / after_s) + LEVER_SIGMA * drawn.machine
        low, mid, high = beliefs.quantiles(ratio, weights, (0.1, 0.5, 0.9))
        found.append(
            LeverOutlook(
                lever=name,
                speedup=Interval(low=math.exp(low), mid=math.exp(mid), high=math.exp(high)),
                slower_chance=float(np.average(ratio < 0, weights=weights)),
            )
        )
    return tuple(sorted(found, key=lambda outlook: -outlook.speedup.mid))


def _weights(
    workload: Workload, measured: tuple[str, float] | None, extra: tuple[Device, ...], drawn: beliefs.Beliefs
) -> Array:
    here = resolve(measured[0], extra=extra).device if measured else None
    if measured is None or here is None or here.kind == "cpu":
        return np.ones(beliefs.NUM_DRAWS)
    return beliefs.weigh(measured[1] / _step_s(workload, here, workload.precision, drawn.here()))


def _step_s(workload: Workload, device: Device, precision: Precision, draws: Draws, *, moved: float = 1.0) -> Array:
    factor = moved * timing.byte_factor(workload.precision, precision)
    return timing.step(timing.columns(workload), device, precision=precision, draws=draws, byte_factor=factor).step_s


def _tried(workload: Workload, device: Device, draws: Draws) -> Iterator[tuple[str, Array]]:
    """Lever -> seconds of a step with it, for the batch of today."""
    now = workload.gpu_precision
    if not now.mixed and now is not Precision.FP64:
        for precision, has_unit in ((Precision.BF16, device.bf16), (Precision.FP16, bool(device.tensor))):
            if has_unit:
                yield precision.value, _step_s(workload, device, precision, draws)
        if device.tf32 and now is Precision.FP32:
            yield "tf32", _step_s(workload, device, Precision.TF32, draws)
    if not workload.totals_only and not workload.compiled:
        yield "compile", _step_s(_compiled(workload), device, now, draws)
    if not workload.totals_only:
        yield "fused-optimizer", _step_s(_fused_optimizer(workload), device, now, draws)
        if now.mixed and any(operator.kind is Kind.CONV for operator in workload.operators):
            # Convolutions on matrix units turn NCHW around and back: the traffic beyond what was counted.
            yield "channels-last", _step_s(workload, device, now, draws, moved=0.85)
    yield "batch-x2", _step_s(workload.scaled(2.0), device, now, draws) / 2


def _changed(workload: Workload, applies: Callable[[Kind, Stage], bool], *, moved: float, count: float) -> Workload:
    operators = tuple(
        replace(
            operator,
            read_bytes=operator.read_bytes * moved / count,
            written_bytes=operator.written_bytes * moved / count,
            count=operator.count * count,
        )
        if applies(operator.kind, operator.stage)
        else operator
        for operator in workload.operators
    )
    return replace(workload, operators=operators)


def _compiled(workload: Workload) -> Workload:
    return _changed(workload, lambda kind, _: kind in FUSIBLE, moved=COMPILED_BYTES, count=COMPILED_OPERATORS)


def _fused_optimizer(workload: Workload) -> Workload:
    return _changed(
        workload, lambda _, stage: stage is Stage.OPTIMIZER, moved=FUSED_OPTIMIZER_BYTES, count=FUSED_OPTIMIZER_BYTES
    )


def energy_j(prediction: Prediction, *, devices: Iterable[Device] = ()) -> float:
    """Joules of one step on all its GPUs, at a usual part of the board power."""
    device = resolve(prediction.device, extra=devices).device
    return POWER_SHARE * device.power_w * prediction.count * prediction.step_s.mid


def price(prediction: Prediction, *, num_steps: int, per_hour: float) -> float:
    """What `num_steps` cost at `per_hour` for one GPU, in the user's currency."""
    return prediction.step_s.mid * num_steps / 3600 * per_hour * prediction.count


def sharded_bytes(workload: Workload, *, shards: int) -> float | None:
    """Bytes on each GPU when FSDP spreads parameters, gradients and optimizer state; None where not known."""
    need = memory.need(workload, shards=shards)
    return None if need is None else need.total
