"""What a forecast comes to: chances and energy."""

import math
from collections.abc import Iterable
from statistics import NormalDist

from hotlap.predict.catalogue import Device, resolve
from hotlap.record import Interval, Prediction

# Part of the board power that a training step draws: idle plus what is busy.
POWER_SHARE = 0.8


def slower_chance(step_s: Interval, *, than_s: float) -> float:
    """Probability that a step takes longer than `than_s`, in [0, 1]: logarithms are taken for normal on either side."""
    off = math.log(than_s / step_s.mid)
    half = math.log(step_s.high / step_s.mid) if off > 0 else math.log(step_s.mid / step_s.low)
    return 1 - NormalDist().cdf(off / half * NormalDist().inv_cdf(0.9))


def energy_j(prediction: Prediction, *, devices: Iterable[Device] = ()) -> float:
    """Joules of one step on all its GPUs, at a usual part of the board power."""
    device = resolve(prediction.device, extra=devices).device
    return POWER_SHARE * device.power_w * prediction.count * prediction.step_s.mid
