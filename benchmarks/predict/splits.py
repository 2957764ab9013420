"""Measured pairs, split so that nothing is judged on what it was fitted to.

A `Split` is some pairs of points, and constants that none of their targets had a part in: neither the efficiencies nor
the width of the intervals.
"""

from collections.abc import Sequence
from functools import cache
from math import log

import calibrate
import measurements
import numpy as np
from calibrate import Values
from measurements import Point

from hotlap.predict import forecast, prediction, resolve

# Families that are left out together, so that each part holds a few dozen pairs.
FOLDS = (
    {"vgg"}, {"resnet", "wide", "resnext"}, {"densenet"}, {"squeezenet", "mnasnet", "mobilenet", "shufflenet"},
    {"transformer"},
)  # fmt: skip
INSIDE = 0.85
"""A little more than the 80% that is promised: the widths are fitted to few devices."""
KINDS = ("device", "hosted")
"""Of pairs: the device alone decides, or the host has a say."""
UNIT = {("interval", kind): 1.0 for kind in KINDS}

Couple = tuple[Point, Point]
Split = tuple[list[Couple], Values]


def couples(points: Sequence[Point]) -> list[Couple]:
    """All pairs, also between machines, on the units that the precision is meant for."""
    return [(a, b) for a, b in calibrate.pairs(points) if has_tensor_units(a) == has_tensor_units(b)]


def has_tensor_units(point: Point) -> bool:
    return point.precision == "fp32" or resolve(point.device).device.tensor > 0


def points() -> list[Point]:
    return [*measurements.torchvision_points(), *measurements.transformer_points()]


@cache
def by_device() -> list[Split]:
    """For each device that is predicted: its pairs, and constants fitted without it."""
    known, judged = calibrate.all_known(), points()
    found = []
    for device in sorted({point.device for point in judged}):
        rest = [point for point in known if point.device != device]
        values = calibrate.fitted(rest, gemm=calibrate.known_gemm(without=device))
        found.append(([(a, b) for a, b in couples(judged) if b.device == device], values))
    return _with_widths(found)


@cache
def by_architecture() -> list[Split]:
    """For each architecture that is predicted: its pairs, and constants fitted without any device of it."""
    known, judged = calibrate.all_known(), points()
    found = []
    for family in sorted({_architecture(point.device) for point in judged}):
        rest = [point for point in known if _architecture(point.device) != family]
        gemm = {name: part for name, part in calibrate.known_gemm().items() if _architecture(name) != family}
        members = [(a, b) for a, b in couples(judged) if _architecture(b.device) == family]
        found.append((members, calibrate.fitted(rest, gemm=gemm)))
    return _with_widths(found)


def _architecture(name: str) -> str:
    return resolve(name).device.family


def by_model() -> list[Split]:
    """For each group of families: its pairs, and constants fitted without them."""
    known, judged = calibrate.all_known(), points()
    found = []
    for fold in FOLDS:
        values = calibrate.fitted([point for point in known if point.family not in fold], gemm=calibrate.known_gemm())
        found.append(([(a, b) for a, b in couples(judged) if a.family in fold], values))
    return _with_widths(found)


def same_machine(a: Point, b: Point) -> bool:
    """Suites are machines: between two of them host, cooling and versions differ too."""
    return a.suite == b.suite


def _with_widths(splits: list[Split]) -> list[Split]:
    """The same, where each split's intervals are as wide as all others need."""
    needed = [_needed(members, values) for members, values in splits]
    return [
        (members, {**values, **_widths([n for other, n in enumerate(needed) if other != index])})
        for index, (members, values) in enumerate(splits)
    ]


def widths(splits: list[Split]) -> Values:
    """What ships: the widths that held-out pairs of all splits need."""
    return _widths([_needed(members, values) for members, values in splits])


Needed = dict[str, list[float]]
"""Kind of pair -> for each by how much its interval would have to be widened to reach the truth."""


def _needed(members: Sequence[Couple], values: Values) -> Needed:
    """In FP32 (half precision without a unit for it is no case that people ask for)."""
    found: Needed = {}
    with calibrate.constants({**values, **UNIT}):
        for a, b in members:
            if a.precision != "fp32":
                continue
            work, asked = a.workload(), {"target": b.device, "measured_on": a.device, "measured_step_s": a.step_s}
            step = forecast(work, **asked).step_s  # type: ignore[arg-type]
            off = log(b.step_s / step.mid)
            side = log(step.high / step.mid) if off > 0 else log(step.low / step.mid)
            kind = KINDS[prediction.hosted(work, **asked) >= 0.5]  # type: ignore[arg-type]
            found.setdefault(kind, []).append(off / side)
    return found


def _widths(parts: Sequence[Needed]) -> Values:
    """So that `INSIDE` of the truths lie inside, on one machine and between two together: nobody says which it is."""
    found = {}
    for kind in KINDS:
        values = [value for part in parts for value in part.get(kind, ())]
        found["interval", kind] = max(1.0, float(np.quantile(values, INSIDE)))
    return found
