"""Measured steps -> src/hotlap/predict/facts/fitted.toml: four constants of the model of time, and six spreads.

    PYTHONPATH=src python benchmarks/predict/calibrate.py

What is made small are the errors of best guesses (no draws) for pairs of devices that ran one model on one machine:
that is what a forecast answers. Each constant is held to a prior. Spreads are such that `INSIDE` of the truths in held
out architectures lie inside their intervals.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import hypot
from pathlib import Path
from typing import Any

import measurements
import numpy as np
from measurements import Point
from scipy.optimize import least_squares

from hotlap.predict import Kind, Precision, beliefs, resolve, timing
from hotlap.predict.catalogue import Device
from hotlap.predict.precision import parse
from hotlap.predict.prediction import HALF
from hotlap.predict.timing import Columns, Draws

OUT = Path(__file__).parents[2] / "src" / "hotlap" / "predict" / "facts" / "fitted.toml"
INSIDE = 0.82
ERROR_SIGMA = 0.1
"""Of one pair: what a model of devices cannot know of two machines."""
NUM_INDEPENDENT = 200
"""Pairs of a few dozen steps tell no more than about this many would that know nothing of each other."""
KINDS = ("same", "near", "far", "lanes", "units", "hosted")

Values = dict[str, Any]
Couple = tuple[Point, Point]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One number to be fitted: its logarithm is held to that of the prior."""

    name: str
    prior: float
    sigma: float


CONSTANTS = (
    Constant(name="products", prior=0.4, sigma=0.3),
    Constant(name="balance", prior=0.4, sigma=0.5),
    Constant(name="moved", prior=0.6, sigma=0.5),
    Constant(name="gap_us", prior=5.0, sigma=0.5),
)


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


@contextmanager
def constants(values: Mapping[str, Any]) -> Iterator[None]:
    """The model with other constants."""
    before, changed = timing.fitted, timing.fitted() | values
    timing.fitted = lambda: changed  # type: ignore[assignment]
    try:
        yield
    finally:
        timing.fitted = before


def fitted(found: Sequence[Point]) -> Values:
    """Constants that explain pairs of `found`.

    The P4 is judged, but nothing is fitted to it: the part of its peak that products reach falls from 0.37 to 0.14 as
    they become longer (NeuSight's table), so that card throttled by heat.
    """
    known = [point for point in found if point.device != "Tesla P4"]
    index = {id(point): number for number, point in enumerate(known)}
    pairs = [(index[id(a)], index[id(b)]) for a, b in couples(known)]
    left, right = np.array(pairs).T
    measured = np.log([point.step_s / point.batch for point in known])
    weight = np.sqrt(NUM_INDEPENDENT / len(pairs)) / ERROR_SIGMA
    groups: dict[tuple[str, str], list[int]] = {}
    for number, point in enumerate(known):
        groups.setdefault((point.device, point.precision), []).append(number)

    def values(z: np.ndarray) -> Values:
        return {one.name: one.prior * float(np.exp(one.sigma * step)) for one, step in zip(CONSTANTS, z, strict=True)}

    def residuals(z: np.ndarray) -> np.ndarray:
        guessed = np.empty(len(known))
        with constants(values(z)):
            for (name, precision), rows in groups.items():
                guessed[rows] = _guess_s([known[row] for row in rows], device(name), parse(precision))
        fixed = beliefs.FIXED_SHARE
        predicted = np.log(fixed + (1 - fixed) * guessed[right] / guessed[left])
        return np.concatenate([(predicted - measured[right] + measured[left]) * weight, z])

    return values(least_squares(residuals, np.zeros(len(CONSTANTS)), loss="soft_l1", diff_step=1e-3, max_nfev=20).x)


def _guess_s(found: Sequence[Point], target: Device, precision: Precision) -> np.ndarray:
    """(P,) best guesses of seconds for each item, of P points on one device."""
    flop, moved, count, batch = (
        np.array([[value] for value in values])
        for values in zip(
            *((one.totals["flop"], one.totals["memory_bytes"], one.totals["num_kernels"], one.batch) for one in found),
            strict=True,
        )
    )
    ones = np.ones(len(found))
    best = Draws(compute=ones, memory=ones, host_s=timing.HOST_S * ones, tf32=np.zeros(len(found), dtype=bool))
    work = Columns(flop=flop, moved=moved, count=count, kinds=(Kind.MATMUL,))
    return timing.step(work, target, precision=precision, draws=best).step_s / batch[:, 0]


class Noted(dict[str, float]):
    """No spread for any kind of pair; notes which was asked for."""

    asked: str | None = None

    def __missing__(self, kind: str) -> float:
        self.asked = kind
        return 0.0


def spread(needed: Sequence[tuple[str, float, float]]) -> dict[str, float]:
    """Kind -> its spread, from (kind, error, half of the interval that the draws give) of pairs."""
    found = {}
    for kind in KINDS:
        missing = [max(0.0, error**2 - half**2) ** 0.5 for one, error, half in needed if one == kind]
        found[kind] = float(np.quantile(missing, INSIDE)) / HALF if missing else 0.2
    return found


def half_width(half: float, sigma: float) -> float:
    """As `prediction` widens the half interval of the draws."""
    return hypot(half, HALF * sigma)


def main() -> None:
    import judge

    beliefs.prior.cache_clear()
    values = {name: round(value, 3) for name, value in fitted(points()).items()}
    held_out = judge.predictions("architecture")
    lines = [
        "# Written by benchmarks/predict/calibrate.py, from steps of torchvision's models (ryujaehun's tables, MIT),",
        "# of transformers (NeuSight's tables, MIT), and of Lambda's ten GPUs (facts). What each is: timing.fitted.",
        *(f"{name} = {value:g}" for name, value in values.items()),
        "",
        "[spread]",
        *(f"{kind} = {value:.3f}" for kind, value in spread([one.needed for one in held_out]).items()),
    ]
    OUT.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
