"""Forecasts against measured pairs, by the questions that people ask -> results/judge.json.

    PYTHONPATH=src python benchmarks/predict/judge.py

Errors are |log(predicted / measured)| of the time for each item. Beside the model: the plain geometric mean of the
ratios of peak and bandwidth. Where batches differ, the one that fills the memory of the device asked about counts.

Nothing is judged on what it was fitted to: for each device (architecture, source) that is predicted, the constants are
fitted again without any pair that it takes part in, and the spread of intervals from pairs without it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import hypot, log
from pathlib import Path

import calibrate
import measurements
import numpy as np
from calibrate import Noted, Values
from measurements import Point

from hotlap.predict import forecast
from hotlap.predict.catalogue import Device

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
    kind: str
    """Of pair, as a spread is fitted for it."""
    halves: tuple[float, float]
    """Of the interval that the draws give, below and above the middle."""

    @property
    def devices(self) -> tuple[Device, Device]:
        return calibrate.device(self.here.device), calibrate.device(self.there.device)

    @property
    def needed(self) -> calibrate.Needed:
        """What widens its interval must come to."""
        return calibrate.Needed(
            kind=self.kind, error=abs(self.error), half=self.halves[self.error < 0], batches=self.batches
        )

    @property
    def batches(self) -> float:
        """Logarithm of the batch there over that here."""
        return log(self.there.batch / self.here.batch)


def predicted(a: Point, b: Point, values: Values) -> Pair:
    """With these constants, and no spread on top of the draws."""
    noted = Noted()
    with calibrate.constants(values | {"spread": noted}):
        found = forecast(
            a.workload(), target=b.device, precision=b.precision, measured_on=a.device, measured_step_s=a.step_s,
            batch_factor=b.batch / a.batch,
        ).step_s  # fmt: skip
    ratio = calibrate.plain_rate(a) / calibrate.plain_rate(b)
    return Pair(
        here=a, there=b, error=log(found.mid / b.step_s), plain=log(ratio * a.step_s / a.batch / (b.step_s / b.batch)),
        kind=noted.asked, halves=(log(found.mid / found.low), log(found.high / found.mid)),
    )  # fmt: skip


def _architecture(point: Point) -> str:
    return calibrate.device(point.device).family


def _source(point: Point) -> str:
    return point.suite.split(",")[0]


SPLITS: dict[str, Callable[[Point], str]] = {
    "device": lambda point: point.device, "architecture": _architecture, "source": _source,
}  # fmt: skip


@cache
def predictions(held_out: str) -> tuple[Pair, ...]:
    """Every pair, each predicted with constants that what is held out had no part in."""
    part, known = SPLITS[held_out], calibrate.points()
    found: list[Pair] = []
    for name in sorted({part(point) for point in known}):
        values = calibrate.fitted([point for point in known if part(point) != name])
        found += [predicted(a, b, values) for a, b in calibrate.couples(known) if part(b) == name]
    return tuple(found)


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


def other_precision() -> dict[str, float]:
    """From TF32 to AMP on one device: no constant was fitted to it, but the form was changed with it in sight."""
    known = measurements.lambda_points()
    by_name = {(one.device, one.model, one.precision): one for one in known}
    errors, inside, width = [], [], []
    for (name, model, precision), here in by_name.items():
        there = by_name.get((name, model, "fp16"))
        if precision != "tf32" or there is None:
            continue
        step_s = forecast(
            here.workload(), target=name, precision="amp", measured_on=name, measured_step_s=here.step_s,
            batch_factor=there.batch / here.batch,
        ).step_s  # fmt: skip
        errors.append(log(step_s.mid / there.step_s))
        inside.append(step_s.low <= there.step_s <= step_s.high)
        width.append(log(step_s.high / step_s.low))
    return {
        "num": len(errors), "median": round(float(np.median(np.abs(errors))), 3),
        "p90": round(float(np.percentile(np.abs(errors), 90)), 3), "coverage": round(float(np.mean(inside)), 3),
        "width": round(float(np.median(width)), 3),
    }  # fmt: skip


def summary(found: Sequence[Pair], widths: Sequence[tuple[float, float]]) -> dict[str, float]:
    """`widths`: half intervals of each, below and above."""

    def size(values: list[float]) -> tuple[float, float]:
        return tuple(round(float(np.percentile(np.abs(values), at)), 3) for at in (50, 90))  # type: ignore[return-value]

    (median, p90), (plain, plain_p90) = size([one.error for one in found]), size([one.plain for one in found])
    inside = [-above <= one.error <= below for one, (below, above) in zip(found, widths, strict=True)]
    return {
        "num": len(found), "median": median, "p90": p90, "plain_median": plain, "plain_p90": plain_p90,
        "bias": round(float(np.median([one.error for one in found])), 3),
        "coverage": round(float(np.mean(inside)), 3),
        "width": round(float(np.median([below + above for below, above in widths])), 3),
    }  # fmt: skip


def judged(held_out: str) -> dict[str, dict[str, float]]:
    """Group -> its errors; each interval as wide as pairs need that what is held out has no part in."""
    found, part = predictions(held_out), SPLITS[held_out]
    others = predictions("architecture")
    spreads = {
        name: calibrate.spread([one.needed for one in others if name not in (part(one.here), part(one.there))])
        for name in {part(one.there) for one in found}
    }

    def widened(one: Pair) -> tuple[float, float]:
        table = spreads[part(one.there)]
        sigma = hypot(table[one.kind], table["batch"] * one.batches)
        below, above = (max(0.02, calibrate.half_width(half, sigma)) for half in one.halves)
        return below, above

    members = {name: [pair for pair in found if belongs(pair)] for name, belongs in GROUPS.items()}
    return {name: summary(pairs, [widened(one) for one in pairs]) for name, pairs in members.items() if pairs}


def main() -> None:
    result = {f"{name} held out": judged(name) for name in SPLITS}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    two = {"two cards, no peer access": two_cards(), "TF32 -> AMP": other_precision()}
    RESULTS.write_text(json.dumps({"before": known.get("before", known.get("today"))} | result | two, indent=1) + "\n")
    for name, groups in (result | {"": two}).items():
        print(name)
        for group, row in groups.items():
            print(f"  {group:52}", *(f"{key} {value:g}" for key, value in row.items()))


if __name__ == "__main__":
    main()
