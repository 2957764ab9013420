"""Measured steps -> src/hotlap/predict/facts/fitted.toml: three constants of the model of time, and three spreads.

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
from hotlap.predict.timing import Columns, Draws, Parts

OUT = Path(__file__).parents[2] / "src" / "hotlap" / "predict" / "facts" / "fitted.toml"
INSIDE = 0.82
ERROR_SIGMA = 0.1
"""Of one pair: what a model of devices cannot know of two machines."""
NUM_INDEPENDENT = 20
"""Pairs tell no more than about this many would that know nothing of each other: there are 18 devices."""
KINDS = ("lanes", "other")
ONE_ARCHITECTURE = 0.05
"""Not fitted: equal steps of a card on two machines (RTX 2080 Ti) differ by 0.08 in the median, most where the host has
a say, and pairs of one architecture in one table by 0.02."""

Values = dict[str, Any]
Couple = tuple[Point, Point]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One number to be fitted: its logarithm is held to that of the prior."""

    name: str
    prior: float
    sigma: float


CONSTANTS = (
    # Large products alone reach 0.8 to 0.9 (A100; NVIDIA, Azure); those of nets are smaller.
    Constant(name="products", prior=0.6, sigma=0.15),
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


class Table:
    """Points and their pairs as arrays (P,): errors of best guesses (no draws) at once."""

    def __init__(self, known: Sequence[Point]) -> None:
        self.points = known
        index = {id(point): number for number, point in enumerate(known)}
        pairs = [(index[id(a)], index[id(b)]) for a, b in couples(known)]
        self.left, self.right = np.array(pairs).T
        self._measured = np.log([point.step_s / point.batch for point in known])
        self._plain = np.array([plain_rate(point) for point in known])
        self._groups: dict[tuple[str, str], list[int]] = {}
        for number, point in enumerate(known):
            self._groups.setdefault((point.device, point.precision), []).append(number)

    def errors(self, values: Values) -> np.ndarray:
        """log(predicted / measured) of each pair."""
        guessed = np.empty((4, len(self.points)))
        with constants(values):
            for (name, precision), rows in self._groups.items():
                guessed[:, rows] = _guess_s([self.points[row] for row in rows], device(name), parse(precision))
        here, there = (_parts(guessed[:, rows]) for rows in (self.left, self.right))
        there = timing.carried(there, here, self._plain[self.left] / self._plain[self.right])
        return np.log(there.step_s / here.step_s) - self._measured[self.right] + self._measured[self.left]


def fitted(found: Sequence[Point]) -> Values:
    """Constants that explain pairs of `found`.

    The P4 is judged, but nothing is fitted to it: the part of its peak that products reach falls from 0.37 to 0.14 as
    they become longer (NeuSight's table), so that card throttled by heat.
    """
    table = Table([point for point in found if point.device != "Tesla P4"])
    weight = np.sqrt(NUM_INDEPENDENT / len(table.left)) / ERROR_SIGMA

    def values(z: np.ndarray) -> Values:
        return {one.name: one.prior * float(np.exp(one.sigma * step)) for one, step in zip(CONSTANTS, z, strict=True)}

    def residuals(z: np.ndarray) -> np.ndarray:
        return np.concatenate([table.errors(values(z)) * weight, z])

    return values(least_squares(residuals, np.zeros(len(CONSTANTS)), loss="soft_l1", diff_step=1e-3, max_nfev=20).x)


def _guess_s(found: Sequence[Point], target: Device, precision: Precision) -> np.ndarray:
    """(4, P) best guesses of seconds for each item, as `Parts` has them, of P points on one device."""
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
    parts = timing.step(work, target, precision=precision, draws=best)
    return np.array([parts.compute_s, parts.memory_s, parts.gap_s, parts.host_s]) / batch[:, 0]


def _parts(rows: np.ndarray) -> Parts:
    compute_s, memory_s, gap_s, host_s = rows
    return Parts(compute_s=compute_s, memory_s=memory_s, gap_s=gap_s, host_s=host_s)


def plain_rate(point: Point) -> float:
    return timing.plain_rate(device(point.device), parse(point.precision), tf32=False)


class Noted(dict[str, float]):
    """No spread for any kind of pair; notes which was asked for."""

    asked: str | None = None

    def __missing__(self, kind: str) -> float:
        self.asked = self.asked or kind
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Needed:
    """What a pair tells of the spread of its kind."""

    kind: str
    error: float
    """Its size."""
    half: float
    """Of the interval that the draws give, on the side of the truth."""
    batches: float
    """Logarithm of the batch there over that here."""

    def missing(self, sigma: float = 0.0) -> float:
        """Standard deviations that an interval lacks beside draws and `sigma`."""
        return max(0.0, self.error**2 - half_width(self.half, sigma) ** 2) ** 0.5 / HALF


def spread(needed: Sequence[Needed]) -> dict[str, float]:
    """Kind -> its spread at equal batches; "batch": what another batch adds, for each factor of e."""
    found = {"same": ONE_ARCHITECTURE}
    for kind in KINDS:
        equal = [one.missing() for one in needed if one.kind == kind and not one.batches]
        found[kind] = float(np.quantile(equal, INSIDE)) if equal else 0.15
    other = [one.missing(found[one.kind]) / abs(one.batches) for one in needed if one.batches]
    return found | {"batch": float(np.quantile(other, INSIDE)) if other else 0.1}


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
