"""Measured operators and steps -> src/hotlap/predict/facts/fitted.toml, with what each constant was fitted to.

Few constants, each with one meaning; all others are priors from documents (facts/constants.toml).
"""

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import permutations
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import measurements
from measurements import Point

from hotlap.predict import beliefs, forecast, resolve, timing

PRIOR_MOVED = 1.35
OUT = Path(__file__).parents[2] / "src" / "hotlap" / "predict" / "facts" / "fitted.toml"


@contextmanager
def constants(changes: dict[tuple[str, ...], float]) -> Iterator[None]:
    """The model with other constants, by their path in the tables."""
    changed = copy.deepcopy(timing.constants())
    for path, value in changes.items():
        table: dict[str, Any] = changed
        for key in path[:-1]:
            table = table[key]
        table[path[-1]] = value
    before = timing.constants
    timing.constants = lambda: changed  # type: ignore[assignment]
    beliefs.prior.cache_clear()
    try:
        yield
    finally:
        timing.constants = before
        beliefs.prior.cache_clear()


def pairs(points: Iterable[Point]) -> Iterator[tuple[Point, Point]]:
    """Each ordered pair of devices that measured one model in one precision."""
    by_model: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        by_model.setdefault((point.model, point.precision), []).append(point)
    for members in by_model.values():
        yield from ((a, b) for a, b in permutations(members, 2) if a.device != b.device)


def error(here: Point, there: Point) -> float:
    """Logarithm of predicted over measured."""
    foretold = forecast(here.workload(), target=there.device, measured_on=here.device, measured_step_s=here.step_s)
    return log(foretold.step_s.mid / there.step_s)


def turing(points: Iterable[Point]) -> float:
    """FP32 efficiency of Turing that makes pairs with the RTX 2080 Ti right in the median, from 0.7 to 1.1."""
    chosen = [
        (a, b) for a, b in pairs(points)
        if a.precision == "fp32" and a.suite == b.suite and "2080" in b.device and "torchvision, first" in a.suite
    ]  # fmt: skip
    best = (float("inf"), 0.8)
    for step in range(16):
        value = 0.70 + 0.025 * step
        with constants({("prior", "fp32_efficiency", "turing"): value}):
            best = min(best, (abs(median(error(a, b) for a, b in chosen)), value))
    return best[1]


def moved_mixed(points: list[Point]) -> float:
    """Bytes that really move under AMP for each byte counted: makes the median step of timm's models right."""
    best = (float("inf"), 1.35)
    for step in range(13):
        value = 1.0 + 0.1 * step
        with constants({("prior", "memory", "really_moved", "mixed"): value}):
            errors = []
            for point in points:
                device = resolve(point.device).device
                work = point.workload()
                drawn = beliefs.prior(work)
                parts = timing.step(timing.columns(work), device, precision=work.precision, draws=drawn.there())
                errors.append(log(float(median(parts.step_s.tolist())) / point.step_s))
            best = min(best, (abs(median(errors)), value))
    return best[1]


def main() -> None:
    first = list(measurements.torchvision_points())
    some = [point for index, point in enumerate(measurements.timm_points()) if index % 6 == 0]
    fitted = {
        "volta": measurements.linear_efficiency("V100", resolve("V100 PCIe 32GB").device.fp32),
        "ga100": measurements.linear_efficiency("A100", resolve("A100 PCIe 40GB").device.fp32),
        "gp100": measurements.linear_efficiency("P100", resolve("P100 PCIe 16GB").device.fp32),
    }
    changes = {("prior", "fp32_efficiency", family): value for family, value in fitted.items()}
    with constants(changes):
        fitted["turing"] = turing(first)
    # Half-way to the prior, since the bytes of timm's models are estimated from their activations.
    moved = (PRIOR_MOVED * moved_mixed(some)) ** 0.5
    lines = [
        "# Written by benchmarks/predict/calibrate.py. What each constant was fitted to:",
        "# fp32_efficiency volta, ga100, gp100: FP32 matrix products of 1 ms and more (NeuSight's tables, MIT).",
        "# fp32_efficiency turing: training steps of torchvision models on one machine (ryujaehun's tables, MIT).",
        "# really_moved mixed: every sixth model of timm's table on an RTX 3090 (Apache-2.0), half-way to 1.35.",
        "",
        "[fp32_efficiency]",
        *(f"{family} = {value:.3f}" for family, value in fitted.items()),
        "",
        "[memory.really_moved]",
        f"mixed = {moved:.2f}",
        "",
    ]
    OUT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
