"""Measured steps and operators -> src/hotlap/predict/facts/fitted.toml: few constants, each held to its prior.

    PYTHONPATH=src python benchmarks/predict/calibrate.py

The best guess (no draws) of each point is compared with its measurement. What is made small: differences between two
devices that ran one model on one machine (that is what a forecast answers), the error of each point for itself (with a
small weight: it says whether a model is bound by computing or by memory), and how far each constant is from its prior,
in standard deviations of that prior. Host time per operator is a nuisance of each suite; how well products run and how
much really moves are nuisances of each family of models, and of each device in each machine (one board is not its
family: it may be cooled badly), with the spreads that a forecast draws them from.
`fitted(points)` is what splits.py calls: with the points of a device, or of a family of models, left out.
"""

import copy
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from math import exp, log
from pathlib import Path
from typing import Any

import measurements
import numpy as np
from measurements import Point
from scipy.optimize import least_squares

from hotlap.predict import Precision, Workload, beliefs, resolve, timing
from hotlap.predict.catalogue import Device
from hotlap.predict.timing import Columns, Draws

OUT = Path(__file__).parents[2] / "src" / "hotlap" / "predict" / "facts" / "fitted.toml"
POINT_WEIGHT = 0.3
"""Of a point's own error, beside 1 for the difference of two."""
PAIR_SIGMA = 0.05
"""What two measurements of one thing on one machine differ by (densenet121 first and last run: 4%)."""
HOST_S, HOST_SIGMA = 1.5e-5, 0.8
GEMM_SIGMA = 0.1
"""How far the efficiency of single large products may be from that of a net's."""

Values = dict[tuple[str, ...], float]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One number to be fitted."""

    path: tuple[str, ...]
    prior: float
    sigma: float
    """Of its logarithm: how far it may be from the prior."""


# FP32 efficiencies: 0.8 of the peak in large products, where all lanes are free for them.
CONSTANTS = (
    *(Constant(path=("fp32_efficiency", family), prior=0.8, sigma=0.15)
      for family in ("gp102", "gp100", "volta", "turing", "ga100")),
    Constant(path=("memory", "really_moved", "full"), prior=1.3, sigma=0.3),
    Constant(path=("memory", "really_moved", "mixed"), prior=1.5, sigma=0.3),
    Constant(path=("tensor", "nets"), prior=0.75, sigma=0.2),
)  # fmt: skip


@contextmanager
def constants(values: Values) -> Iterator[None]:
    """The model with other constants, by their path below "prior"."""
    changed = copy.deepcopy(timing.constants())
    for path, value in values.items():
        table: dict[str, Any] = changed["prior"]
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


@dataclass(frozen=True, kw_only=True)
class Case:
    """Points of one device and precision, with what does not change while constants are fitted. P points."""

    device: Device
    precision: Precision
    work: Columns
    """(P, K): totals are spread over equally many operators, whatever the model."""
    rows: np.ndarray
    """(P,) where they are among all points."""

    def guess_s(self, *, host_s: np.ndarray, compute: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """(P,) best guesses of the steps; `compute` and `memory` are (P,) factors of models and boards."""
        moved = memory * timing.really_moved(self.precision)
        each = Draws(compute=compute, memory=moved, host_s=host_s, tf32=np.zeros(len(self.rows), dtype=bool))
        return timing.step(self.work, self.device, precision=self.precision, draws=each).step_s


def cases(points: Sequence[Point]) -> list[Case]:
    """All points, by device and precision."""
    works = [point.workload() for point in points]
    groups: dict[tuple[str, Precision], list[int]] = {}
    for row, (point, work) in enumerate(zip(points, works, strict=True)):
        groups.setdefault((point.device, work.precision), []).append(row)
    return [
        Case(
            device=resolve(name).device, precision=precision, work=_stacked([works[row] for row in rows]),
            rows=np.array(rows),
        )
        for (name, precision), rows in groups.items()
    ]  # fmt: skip


def _stacked(works: Sequence[Workload]) -> Columns:
    kinds = tuple(operator.kind for operator in works[0].operators)

    def column(name: str) -> np.ndarray:
        return np.array([[getattr(operator, name) for operator in work.operators] for work in works])

    return Columns(
        flop=column("done_flop"), moved=column("moved_bytes"), count=column("count"),
        matrix=np.array([kind.on_matrix_units for kind in kinds]), kinds=kinds,
    )  # fmt: skip


class _Problem:
    """Residuals of a vector of standard scores: constants, then the nuisances of suites, of families, of boards.

    Shape letters: Z unknowns, R residuals.
    """

    def __init__(self, points: Sequence[Point], gemm: dict[str, float]) -> None:
        self.points, self.gemm = points, gemm
        self.cases = cases(points)
        families = [(point.family, point.precision) for point in points]
        boards = [(point.suite, point.device) for point in points]
        self.num_unknowns = len(CONSTANTS)
        self.host = self._numbered([point.suite for point in points])
        self.compute, self.memory = self._numbered(families), self._numbered(families)
        self.board_compute, self.board_memory = self._numbered(boards), self._numbered(boards)
        index = {id(point): number for number, point in enumerate(points)}
        couples = [(index[id(a)], index[id(b)]) for a, b in pairs(points) if a.suite == b.suite and a.device < b.device]
        self.left, self.right = (np.array([couple[side] for couple in couples], dtype=int) for side in (0, 1))
        self.measured = np.log([point.step_s for point in points])

    def _numbered(self, names: Sequence[Hashable]) -> np.ndarray:
        """For each point the index of its unknown: one for each name, behind those that are numbered already."""
        order = {name: self.num_unknowns + number for number, name in enumerate(dict.fromkeys(names))}
        self.num_unknowns += len(order)
        return np.array([order[name] for name in names])

    def values(self, z: np.ndarray) -> Values:
        return {one.path: one.prior * exp(one.sigma * step) for one, step in zip(CONSTANTS, z, strict=False)}

    def residuals(self, z: np.ndarray) -> np.ndarray:
        """(R,) in units of `PAIR_SIGMA`, of `GEMM_SIGMA`, and of the priors' spreads."""
        host_s = HOST_S * np.exp(HOST_SIGMA * z[self.host])
        compute = np.exp(
            beliefs.TOTALS_COMPUTE_SIGMA * z[self.compute] + beliefs.DEVICE_COMPUTE_SIGMA * z[self.board_compute]
        )
        memory = np.exp(
            beliefs.TOTALS_MEMORY_SIGMA * z[self.memory] + beliefs.DEVICE_MEMORY_SIGMA * z[self.board_memory]
        )
        guessed = np.empty(len(self.points))
        with constants(self.values(z)):
            for one in self.cases:
                guess_s = one.guess_s(host_s=host_s[one.rows], compute=compute[one.rows], memory=memory[one.rows])
                guessed[one.rows] = np.log(guess_s)
            reached = [log(_gemm_efficiency(device) / part) / GEMM_SIGMA for device, part in self.gemm.items()]
        far = (guessed - self.measured) / PAIR_SIGMA
        return np.concatenate([far[self.left] - far[self.right], POINT_WEIGHT * far, reached, z])

    def sparsity(self) -> np.ndarray:
        """(R, Z) which residual depends on which unknown."""
        depends = np.zeros((len(self.points), self.num_unknowns), dtype=int)
        depends[:, : len(CONSTANTS)] = 1
        for unknown in (self.host, self.compute, self.memory, self.board_compute, self.board_memory):
            depends[np.arange(len(self.points)), unknown] = 1
        gemm = np.zeros((len(self.gemm), self.num_unknowns), dtype=int)
        gemm[:, : len(CONSTANTS)] = 1
        own = np.eye(self.num_unknowns, dtype=int)
        return np.concatenate([depends[self.left] | depends[self.right], depends, gemm, own])


def fitted(points: Sequence[Point], *, gemm: dict[str, float] | None = None) -> Values:
    """Constants that explain `points`, and `gemm`: device -> part of the FP32 peak that large products reach there."""
    problem = _Problem(points, gemm or {})
    found = least_squares(
        problem.residuals, np.zeros(problem.num_unknowns), loss="soft_l1", diff_step=1e-3, max_nfev=20,
        jac_sparsity=problem.sparsity(), x_scale=1.0,
    )  # fmt: skip
    return problem.values(found.x)


def _gemm_efficiency(name: str) -> float:
    device = resolve(name).device
    return timing.constants()["prior"]["fp32_efficiency"][device.family] * timing.sustained(device)


def known_steps() -> list[Point]:
    """The points that constants may be fitted to: where the precision runs on the units that it is meant for.

    The P4 is judged, but nothing is fitted to it: the part of its peak that products reach falls from 0.37 to 0.14 as
    they become longer (NeuSight's table), so that card throttled by heat.
    """
    found = [*measurements.torchvision_points(), *measurements.transformer_points()]
    return [
        point for point in found
        if point.device != "Tesla P4" and (point.precision == "fp32" or resolve(point.device).device.tensor > 0)
    ]  # fmt: skip


def all_known() -> list[Point]:
    """What the shipped constants are fitted to."""
    return [*known_steps(), *some_timm()]


def some_timm() -> list[Point]:
    """Every twentieth model of timm's table: AMP on one RTX 3090, which says what mixed precision moves."""
    return list(measurements.timm_points())[::20]


def known_gemm(*, without: str = "") -> dict[str, float]:
    """Device -> part of the FP32 peak in matrix products of 1 ms and more; not of the device that is judged.

    T4 and P4 are left out: power and heat hold long products back more than whole steps.
    """
    names = {"Tesla V100 PCIe 32GB": "V100", "A100 PCIe 40GB": "A100", "Tesla P100 PCIe 16GB": "P100"}
    return {
        device: measurements.linear_efficiency(key, resolve(device).device.fp32)
        for device, key in names.items() if device != without
    }  # fmt: skip


def main() -> None:
    import splits

    values = fitted(all_known(), gemm=known_gemm())
    # What people ask about is mostly newer than what was measured: as wide as a new architecture needs it.
    values |= splits.widths(splits.by_architecture())
    lines = [
        "# Written by benchmarks/predict/calibrate.py, from steps of torchvision's models (ryujaehun's tables, MIT),",
        "# of transformers and large FP32 products (NeuSight's tables, MIT), and of every twentieth model of timm's",
        "# table on an RTX 3090 (Apache-2.0). Priors and their spread stand there; interval: held-out architectures.",
    ]
    tables: dict[str, list[str]] = {}
    for (*path, name), value in values.items():
        tables.setdefault(".".join(path), []).append(f"{name} = {value:.3f}")
    for name, rows in tables.items():
        lines += ["", f"[{name}]", *rows]
    OUT.write_text("\n".join(lines) + "\n")
    timing.constants.cache_clear()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
