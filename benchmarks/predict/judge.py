"""Forecasts against measured pairs, by the questions that people ask -> results/judge.json.

    PYTHONPATH=src python benchmarks/predict/judge.py

Errors are |log(predicted / measured)| of the time for each item. Beside the model: the plain geometric mean of the
ratios of peak and bandwidth. Where batches differ, the one that fills the memory of the device asked about counts.

The model has no fitted constants, so its errors are the same whatever is held out. The widths of its intervals are
fitted: for each device (architecture, source) that is predicted, by pairs that it has no part in.

Pairs that ran one net are no draws of their own: where a net is off on one board, it is so beside all others. So what a
figure may owe to chance is told by drawing nets, with all their pairs, again and again.
"""

import json
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import Any

import calibrate
import measurements
import numpy as np
from calibrate import Pair
from measurements import Point

from hotlap.predict import Workload, forecast

RESULTS = Path(__file__).with_name("results") / "judge.json"
NEW = frozenset({"ga100", "ga102", "ada", "hopper"})
SPLITS: dict[str, Callable[[Point], str]] = {
    "device": lambda point: point.device,
    "architecture": lambda point: calibrate.device(point.device).family,
    "source": lambda point: point.suite.split(",")[0],
}


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
    "within Hopper": lambda pair: pair.families == {"hopper"},
    "within one architecture": lambda pair: len(pair.families) == 1,
    "FP32-only -> Ampere and later": lambda pair: pair.here.precision == "fp32-ieee" and pair.there.precision == "tf32",
    "to A100 and H100": lambda pair: pair.devices[1].family in ("ga100", "hopper"),
    "Ampere and later, equal batch": lambda pair: pair.families <= NEW and _equal_batch(pair),
    "batch that fills the memory of one": lambda pair: not _equal_batch(pair) and pair.families <= NEW,
    "half precision, up to Turing <-> Ampere and later": lambda pair: (
        pair.there.precision == "fp16" and len(pair.families & NEW) == 1
    ),
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


def other_precision() -> dict[str, dict[str, float]]:
    """From FP32 or TF32 to half precision on one device, by source."""
    found: dict[str, list[tuple[float, bool, float]]] = {}
    for here, there, step_s in calibrate.halved():
        row = (log(step_s.mid / there.step_s), step_s.low <= there.step_s <= step_s.high, log(step_s.high / step_s.low))
        found.setdefault(f"{SPLITS['source'](there)}, from {here.precision}", []).append(row)
    return {
        name: {"num": len(rows)} | _sizes("", [row[0] for row in rows])
        | {"coverage": round(float(np.mean([row[1] for row in rows])), 3),
           "width": round(float(np.median([row[2] for row in rows])), 3)}
        for name, rows in found.items()
    }  # fmt: skip


def floors() -> dict[str, dict[str, float]]:
    """What two machines with one card differ by: no model of devices gets below that between sources."""
    known = {(one.suite, one.device, one.model, one.precision): one.step_s for one in calibrate.points()}
    steps, gains = [], []
    for (suite, device, model, precision), first_s in known.items():
        second_s = known.get(("torchvision, second machine", device, model, precision))
        if suite != "torchvision, first machine" or second_s is None:
            continue
        steps.append(log(first_s / second_s))
        if precision == "fp32":
            halves = [known[f"torchvision, {which} machine", device, model, "fp16"] for which in ("first", "second")]
            gains.append(steps[-1] - log(halves[0] / halves[1]))
    return {
        "a step's time": {"num": len(steps)} | _sizes("", steps),
        "the gain from half precision": {"num": len(gains)} | _sizes("", gains),
    }


def widened(found: Sequence[Pair], part: Callable[[Point], str]) -> list[tuple[float, float]]:
    """Half intervals of each pair, below and above: as wide as pairs need that have no part in what it asks about."""
    spreads = {
        name: calibrate.spread([one for one in found if name not in (part(one.here), part(one.there))])
        for name in {part(one.there) for one in found}
    }

    return [one.widened(spreads[part(one.there)]) for one in found]


def not_told() -> dict[str, float]:
    """FP32-only to Ampere and later and back, where "fp32" is said and not whether that is TF32."""
    errors, inside = [], []
    for a, b in calibrate.couples(list(measurements.lambda_points())):
        if {a.precision, b.precision} != {"fp32-ieee", "tf32"}:
            continue
        step_s = forecast(
            Workload.from_totals(**a.totals, precision="fp32"), target=b.device, precision="fp32",
            measured_on=a.device, measured_step_s=a.step_s, batch_factor=b.batch / a.batch,
        ).step_s  # fmt: skip
        errors.append(log(step_s.mid / b.step_s))
        inside.append(step_s.low <= b.step_s <= step_s.high)
    return {"num": len(errors), "coverage": round(float(np.mean(inside)), 3)} | _sizes("", errors)


def unmeasured() -> dict[str, float]:
    """Forecasts from totals alone, without a measured step; each family of nets in each source counts once."""
    families: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for point in calibrate.points():
        step_s = forecast(point.workload(), target=point.device, precision=point.precision).step_s
        inside = step_s.low <= point.step_s <= step_s.high
        of_family = families.setdefault((SPLITS["source"](point), point.family), [])
        of_family.append((log(step_s.mid / point.step_s), inside))
    errors = [float(np.median([error for error, _ in one])) for one in families.values()]
    inside = [float(np.mean([inside for _, inside in one])) for one in families.values()]
    return {"num": len(errors), "bias": round(float(np.median(errors)), 3), "coverage": round(float(np.mean(inside)), 3)
            } | _sizes("", errors)  # fmt: skip


def judged() -> dict[str, dict[str, Any]]:
    """Group -> its errors, and by what was held out: the part of truths inside, and the median width."""
    found = calibrate.pairs()
    nets = np.array([f"{one.here.suite}, {one.here.model}, {one.there.precision}" for one in found])
    intervals = {name: widened(found, part) for name, part in SPLITS.items()}
    result = {}
    for group, belongs in GROUPS.items():
        rows = [row for row, one in enumerate(found) if belongs(one)]
        result[group] = {"num": len(rows)} | _sizes("", [found[row].error for row in rows])
        result[group] |= _sizes("plain_", [found[row].plain for row in rows])
        result[group]["bias"] = round(float(np.median([found[row].error for row in rows])), 3)
        for name, halves in intervals.items():
            inside = [-halves[row][1] <= found[row].error <= halves[row][0] for row in rows]
            result[group][f"inside, {name} held out"] = round(float(np.mean(inside)), 3)
            result[group][f"width, {name} held out"] = round(float(np.median([sum(halves[row]) for row in rows])), 3)
            if name == "device":
                result[group]["inside by chance"] = by_chance(np.array(inside), nets[rows], np.mean)
        sizes = np.abs([found[row].error for row in rows])
        result[group]["p90 by chance"] = by_chance(sizes, nets[rows], lambda drawn: np.percentile(drawn, 90))
    return result


def by_chance(values: Any, nets: Any, of: Callable[[Any], Any]) -> tuple[float, float]:
    """90% interval of a figure of `values`, one for each pair, over which nets were measured."""
    random = np.random.default_rng(0)
    of_net = [values[nets == net] for net in np.unique(nets)]
    figures = [
        of(np.concatenate([of_net[k] for k in random.integers(len(of_net), size=len(of_net))])) for _ in range(999)
    ]
    low, high = np.percentile(figures, (5, 95))
    return round(float(low), 3), round(float(high), 3)


def _sizes(prefix: str, errors: list[float]) -> dict[str, float]:
    median, p90 = (round(float(np.percentile(np.abs(errors), at)), 3) for at in (50, 90))
    return {f"{prefix}median": median, f"{prefix}p90": p90}


def main() -> None:
    groups = judged()
    two: dict[str, dict[str, Any]] = {
        "two cards, no peer access": two_cards(), "half precision": other_precision(), "no measured step": unmeasured(),
        "TF32 not told": not_told(), "two machines, one card": floors(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps({"groups": groups} | two, indent=1) + "\n")
    for group, row in (groups | two).items():
        print(f"{group:52}", *(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
