"""Forecasts against measured pairs, by the questions that people ask -> results/judge.json.

    PYTHONPATH=src python benchmarks/predict/judge.py [NAME]

Errors are |log(predicted / measured)| of the time for each item. Beside the model: the plain geometric mean of the
ratios of peak and bandwidth. Where batches differ, the one that fills the memory of the device asked about counts.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import log
from pathlib import Path

import measurements
import numpy as np
from measurements import Point

from hotlap.predict import forecast, resolve
from hotlap.predict.catalogue import Device
from hotlap.predict.precision import matrix_rate, parse

RESULTS = Path(__file__).with_name("results") / "judge.json"
NEW = frozenset({"ga100", "ga102", "ada", "hopper"})


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One pair of measured devices, predicted."""

    here: Point
    there: Point
    error: float
    """log(predicted / measured), of the time for each item."""
    plain: float
    """The same of the geometric mean of peaks."""
    inside: bool
    width: float
    """log(high / low)"""

    @property
    def devices(self) -> tuple[Device, Device]:
        return resolve(self.here.device).device, resolve(self.there.device).device


def predicted(a: Point, b: Point) -> Pair:
    """With the constants of the moment."""
    found = forecast(
        a.workload(), target=b.device, precision=b.precision, measured_on=a.device, measured_step_s=a.step_s
    ).step_s
    items = b.batch / a.batch
    here, there = resolve(a.device).device, resolve(b.device).device
    rates = [matrix_rate(one, parse(point.precision), tf32=False) for one, point in ((here, a), (there, b))]
    ratio = (rates[1] / rates[0] * there.bandwidth / here.bandwidth) ** -0.5
    return Pair(
        here=a, there=b, error=log(found.mid * items / b.step_s), plain=log(ratio * a.step_s * items / b.step_s),
        inside=found.low * items <= b.step_s <= found.high * items, width=log(found.high / found.low),
    )  # fmt: skip


def couples(points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Each ordered pair that ran one model on one machine: in one precision, or FP32 where there is no TF32."""
    for a, b in permutations(points, 2):
        fp32 = {a.precision, b.precision} <= {"fp32-ieee", "tf32"}
        same = (a.suite, a.model) == (b.suite, b.model)
        if same and a.device != b.device and (a.precision == b.precision or fp32) and _has_unit(a) and _has_unit(b):
            yield a, b


def _has_unit(point: Point) -> bool:
    """FP16 without matrix units is no case that people ask for."""
    return point.precision != "fp16" or resolve(point.device).device.tensor > 0


def _families(pair: Pair) -> set[str]:
    return {device.family for device in pair.devices}


def _equal_batch(pair: Pair) -> bool:
    return pair.here.batch == pair.there.batch


GROUPS: dict[str, Callable[[Pair], bool]] = {
    "all": lambda pair: True,
    "newest workstation generation, A6000 <-> 6000 Ada": lambda pair: (
        {pair.here.device, pair.there.device} == {"RTX A6000", "RTX 6000 Ada"}
    ),
    "consumer <-> newer generation, 3090 <-> 6000 Ada": lambda pair: (
        {pair.here.device, pair.there.device} == {"RTX 3090", "RTX 6000 Ada"}
    ),
    "within Hopper": lambda pair: _families(pair) == {"hopper"},
    "within one architecture": lambda pair: len(_families(pair)) == 1,
    "FP32-only -> Ampere and later": lambda pair: pair.here.precision == "fp32-ieee" and pair.there.precision == "tf32",
    "to A100 and H100": lambda pair: pair.devices[1].family in ("ga100", "hopper"),
    "Ampere and later, equal batch": lambda pair: _families(pair) <= NEW and _equal_batch(pair),
    "batch that fills the memory of one": lambda pair: not _equal_batch(pair) and _families(pair) <= NEW,
    "torchvision and transformers up to Volta and Turing": lambda pair: pair.here.suite != "lambda",
}


def summary(found: Sequence[Pair]) -> dict[str, float]:
    def size(values: list[float]) -> tuple[float, float]:
        return tuple(round(float(np.percentile(np.abs(values), at)), 3) for at in (50, 90))  # type: ignore[return-value]

    (median, p90), (plain, plain_p90) = size([one.error for one in found]), size([one.plain for one in found])
    return {
        "num": len(found), "median": median, "p90": p90, "plain_median": plain, "plain_p90": plain_p90,
        "bias": round(float(np.median([one.error for one in found])), 3),
        "coverage": round(float(np.mean([one.inside for one in found])), 3),
        "width": round(float(np.median([one.width for one in found])), 3),
    }  # fmt: skip


def two_cards() -> dict[str, float]:
    """Efficiency of two RTX 3090 without peer access."""
    one = {(p.model, p.precision): p for p in measurements.lambda_points() if p.device == "RTX 3090"}
    gaps, inside, width = [], [], []
    for row in measurements.two_gpus():
        point = one.get((row["model"], row["precision"]))
        if point is None:
            continue
        found = forecast(
            point.workload(), target="RTX 3090", count=2, measured_on="RTX 3090", measured_step_s=point.step_s
        )
        truth = float(row["efficiency"])
        gaps.append(abs((found.efficiency or 0.0) - truth))
        inside.append(found.step_s.low <= point.step_s / truth <= found.step_s.high)
        width.append(log(found.step_s.high / found.step_s.low))
    return {
        "num": len(gaps), "mean_absolute_error": round(float(np.mean(gaps)), 3),
        "coverage": round(float(np.mean(inside)), 3), "width": round(float(np.median(width)), 3),
    }  # fmt: skip


def judged(found: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """Group -> its errors."""
    members = {name: [pair for pair in found if belongs(pair)] for name, belongs in GROUPS.items()}
    return {name: summary(pairs) for name, pairs in members.items() if pairs}


def main(name: str = "today") -> None:
    points = [*measurements.torchvision_points(), *measurements.transformer_points(), *measurements.lambda_points()]
    result = judged([predicted(a, b) for a, b in couples(points)]) | {"two cards, no peer access": two_cards()}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(known | {name: result}, indent=1) + "\n")
    for group, row in result.items():
        print(f"{group:52}", *(f"{key} {value:g}" for key, value in row.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
