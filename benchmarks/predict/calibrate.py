"""Pairs of measured steps -> how wide intervals must be: prints `SPREAD` of src/hotlap/predict/prediction.py.

    PYTHONPATH=src python benchmarks/predict/calibrate.py

Spreads are such that `INSIDE` of the truths lie inside their intervals.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import hypot, log, sqrt
from unittest.mock import patch

import measurements
import numpy as np
from measurements import Point

from hotlap.predict import forecast, prediction, resolve
from hotlap.predict.catalogue import Device
from hotlap.predict.precision import matrix_rate, parse
from hotlap.record import Interval

INSIDE = 0.8
LEAST = 0.05
"""Not fitted: equal steps of a card on two machines (RTX 2080 Ti) differ by 0.08 in the median, most where the host has
a say, and pairs of one architecture in one table by 0.02."""

Couple = tuple[Point, Point]


@cache
def device(name: str) -> Device:
    """By a name of the tables."""
    return resolve(name).device


def points() -> list[Point]:
    """All that is judged."""
    return [*measurements.torchvision_points(), *measurements.transformer_points(), *measurements.lambda_points()]


def couples(found: Sequence[Point]) -> Iterator[Couple]:
    """Each ordered pair that ran one model on one machine: in one precision, or FP32 where there is no TF32."""
    for a, b in permutations(found, 2):
        fp32 = {a.precision, b.precision} <= {"fp32-ieee", "tf32"}
        same = (a.suite, a.model) == (b.suite, b.model)
        if same and a.device != b.device and (a.precision == b.precision or fp32) and _has_unit(a) and _has_unit(b):
            yield a, b


def _has_unit(point: Point) -> bool:
    """FP16 without matrix units is no case that people ask for."""
    return point.precision != "fp16" or device(point.device).tensor > 0


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair of measured devices, predicted without any spread on top of what is not known of the workload."""

    here: Point
    there: Point
    error: float
    """log(predicted / measured), of the time for each item."""
    plain: float
    """The same of the geometric mean of peak and bandwidth."""
    halves: tuple[float, float]
    """Of that interval, below and above the middle."""
    scale: float
    """What the spread of pairs is multiplied with: how far the two are apart."""

    @property
    def devices(self) -> tuple[Device, Device]:
        return device(self.here.device), device(self.there.device)

    @property
    def families(self) -> set[str]:
        """Their architectures."""
        return {one.family for one in self.devices}

    def missing(self) -> float:
        """Standard deviations that its interval lacks on the side of the truth."""
        return max(0.0, self.error**2 - self.halves[self.error < 0] ** 2) ** 0.5 / prediction.HALF

    def widened(self, spread: float) -> tuple[float, float]:
        """Half intervals below and above, as `prediction` widens them."""
        more = prediction.HALF * max(LEAST, spread * self.scale)
        below, above = (hypot(half, more) for half in self.halves)
        return below, above


def pairs() -> list[Pair]:
    """All, predicted."""
    return [_predicted(a, b) for a, b in couples(points())]


def _predicted(a: Point, b: Point) -> Pair:
    found = []
    for spread in (0.0, 1.0):
        with patch.dict(prediction.SPREAD, {"least": 0.0, "apart": spread}):
            found.append(
                forecast(
                    a.workload(), target=b.device, precision=b.precision, measured_on=a.device,
                    measured_step_s=a.step_s, batch_factor=b.batch / a.batch,
                ).step_s
            )  # fmt: skip
    alone, apart = found
    halves = log(alone.mid / alone.low), log(alone.high / alone.mid)
    ratio = _plain_rate(a) / _plain_rate(b)
    return Pair(
        here=a, there=b, error=log(alone.mid / b.step_s), halves=halves,
        plain=log(ratio * a.step_s / a.batch / (b.step_s / b.batch)),
        scale=sqrt(log(apart.high / apart.mid) ** 2 - halves[1] ** 2) / prediction.HALF,
    )  # fmt: skip


def _plain_rate(point: Point) -> float:
    """Geometric mean of peak and bandwidth: a speed, in a unit of its own."""
    one = device(point.device)
    return sqrt(matrix_rate(one, parse(point.precision), tf32=False) * one.bandwidth)


def spread(found: Sequence[Pair]) -> float:
    """Of pairs that are one `apart`. Those of one architecture are too near to each other to say how it grows."""
    return float(np.quantile([one.missing() / one.scale for one in found if len(one.families) == 2], INSIDE))


def halved() -> Iterator[tuple[Point, Point, Interval]]:
    """What ran on one device in FP32 or TF32 and in half precision on matrix units, and the latter predicted."""
    known = {(one.suite, one.device, one.model, one.precision): one for one in points()}
    for here in known.values():
        there = known.get((here.suite, here.device, here.model, "fp16"))
        if here.precision != "fp16" and there is not None and _has_unit(there):
            yield here, there, forecast(
                here.workload(), target=here.device, precision="amp", measured_on=here.device,
                measured_step_s=here.step_s, batch_factor=there.batch / here.batch,
            ).step_s  # fmt: skip


def halves() -> dict[str, float]:
    """Source and precision of the measured step -> the spread that half precision adds."""
    missing: dict[str, list[float]] = {}
    with patch.dict(prediction.SPREAD, {"halved": 0.0, "halved lanes": 0.0}):
        for here, there, step_s in halved():
            error = log(step_s.mid / there.step_s)
            half = log(step_s.mid / step_s.low) if error > 0 else log(step_s.high / step_s.mid)
            lacks = max(0.0, error**2 - half**2) ** 0.5 / prediction.HALF
            missing.setdefault(f"{here.suite.split(',')[0]}, {here.precision}", []).append(lacks)
    return {name: float(np.quantile(found, INSIDE)) for name, found in missing.items()}


if __name__ == "__main__":
    print({kind: round(value, 3) for kind, value in ({"apart": spread(pairs())} | halves()).items()})
