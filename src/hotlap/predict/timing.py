"""The model of time: operators on a device -> seconds, for many draws of what is not known at once.

Per operator: a floor, and then the larger of computing and moving bytes. The host dispatches operators while the device
works; a step takes as long as the slower of the two.

Shape letters: D draws, K operators (groups of equal ones).
"""

import math
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.predict.catalogue import Device, devices
from hotlap.predict.precision import Precision, matrix_rate
from hotlap.predict.workload import Kind, Operator, Workload

Array = NDArray[np.float64]

# Device time of one operator beyond its work: ramp-up, drain, and the gap to the next one.
GAP_S = 2.5e-6
# Matrix products fill the device in waves of tiles: about this time is lost in each (fits the ND A100 GEMM table).
WAVE_S = 6.0e-6
# Bytes that operators read and write for each of FP32: under mixed precision norms, losses, parameters and their
# updates stay in FP32.
MIXED_BYTES = 0.62
BYTES_COUNTED = {Precision.FP16: MIXED_BYTES, Precision.BF16: MIXED_BYTES, Precision.FP64: 2.0}


@cache
def constants() -> dict[str, Any]:
    """facts/constants.toml, with what facts/fitted.toml puts in the place of its priors."""
    return _merged(_table("constants.toml"), {"prior": _table("fitted.toml")})


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`below` with what `above` says in its place, table by table."""
    return below | {
        key: _merged(below[key], value) if isinstance(value, dict) and key in below else value
        for key, value in above.items()
    }


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files("hotlap.predict").joinpath("facts", name).read_text("utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """(D,) factors on what is not known of a workload; 1 is the best guess."""

    compute: Array
    """On the efficiency of matrix work."""
    memory: Array
    """On the bytes that really travel."""
    host_s: Array
    """Seconds of host time for each operator."""
    tf32: NDArray[np.bool_]
    """Whether FP32 matrix work uses TF32 where the precision leaves it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """(D,) seconds of one step, by what takes them. `compute` and `memory` do not overlap in this account."""

    compute_s: Array
    memory_s: Array
    floor_s: Array
    host_s: Array

    @property
    def device_s(self) -> Array:
        """Busy time of the device."""
        return self.compute_s + self.memory_s + self.floor_s

    @property
    def step_s(self) -> Array:
        """The slower of host and device; near the balance each waits for the other now and then."""
        return (self.device_s**6 + self.host_s**6) ** (1 / 6)

    def times(self, factor: Array) -> "Parts":
        """With the work of the device taking `factor` times as long; the host's stays."""
        return Parts(
            compute_s=self.compute_s * factor,
            memory_s=self.memory_s * factor,
            floor_s=self.floor_s * factor,
            host_s=self.host_s,
        )

    def bound_by(self, weights: Array) -> str:
        """What takes most of the time: "compute", "memory", "launch" (floors of small operators) or "host"."""

        def mean(values: Array) -> float:
            return float(np.average(values, weights=weights))

        if mean(self.host_s) > mean(self.device_s):
            return "host"
        shares = {"compute": mean(self.compute_s), "memory": mean(self.memory_s), "launch": mean(self.floor_s)}
        return max(shares, key=lambda name: shares[name])


@cache
def _watts_per_flop(family: str) -> float | None:
    """Board power for each operation a second of FP32 peak, as boards of `family` usually have it."""
    found = [one.power_w / one.fp32 for one in devices(kind="gpu") if one.family == family]
    return median(found) if found else None


def sustained(device: Device) -> float:
    """Clock that matrix work holds over the boost clock that the board is sold with: what its power limit allows, and
    more than 1 only where the board chooses its clock itself."""
    power = constants()["prior"]["power"]
    usual = _watts_per_flop(device.family)
    most = float(power["headroom"]) if device.chooses_clock else 1.0
    if usual is None or device.kind != "gpu":
        return most
    held = (device.power_w - power["base_w"]) / (power["share"] * usual * device.fp32)
    return float(min(most, held ** power["exponent"]))


def compute_rate(device: Device, precision: Precision, kind: Kind, *, tf32: bool) -> float:
    """Operations a second that large operators of `kind` reach on `device`."""
    prior = constants()["prior"]
    vector: float = device.fp32 * prior["fp32_efficiency"].get(device.family, 0.6)
    if not kind.on_matrix_units:
        return vector * sustained(device)
    rate = matrix_rate(device, precision, tf32=tf32)
    if precision is Precision.FP64:
        return rate * float(prior["fp64_efficiency"]) * sustained(device)
    if precision.mixed and device.tensor and rate == device.tensor:
        return max(rate * _matrix_efficiency(device), vector) * sustained(device)
    if rate == device.tf32 and rate > 0:
        feed = float(prior["tensor"]["tf32"])
        return max(rate * feed * _matrix_efficiency(device), vector) * sustained(device)
    reached = vector / device.fp32 * rate * sustained(device)
    # Winograd's algorithm multiplies less than is counted.
    return reached * float(prior["conv"]["fp32"]) if kind is Kind.CONV else reached


def _matrix_efficiency(device: Device) -> float:
    """Part of the matrix peak that large operators of real nets reach: the faster a unit, the harder it is to feed."""
    prior = constants()["prior"]["tensor"]
    # A device of the user's that does not say how many units it has is taken for one on the line's anchor.
    each = device.tensor / 1e12 / device.units if device.units > 1 else prior["unit_tflops"]
    line = prior["efficiency"] * (prior["unit_tflops"] / each) ** prior["exponent"]
    return float(prior["nets"] * min(1.0, line * prior["family"].get(device.family, 1.0)))


def really_moved(precision: Precision) -> float:
    """Bytes that travel for each byte that operators read and write, counted alone."""
    table = constants()["prior"]["memory"]["really_moved"]
    return float(table["mixed" if precision.mixed else "full"])


def byte_factor(recorded: Precision, wanted: Precision) -> float:
    """Bytes that travel in `wanted` for each that travels in `recorded`."""

    def relative(precision: Precision) -> float:
        return BYTES_COUNTED.get(precision, 1.0) * really_moved(precision)

    return relative(wanted) / relative(recorded)


def memory_rate(device: Device) -> float:
    """Bytes a second that large operators reach."""
    table = constants()["prior"]["memory"]
    return device.bandwidth * float(table.get(device.family, table["efficiency"]))


@dataclass(frozen=True, slots=True)
class Columns:
    """(K,) columns of a workload, made once and used for every device."""

    flop: Array
    """(K,); or (D, K), where each draw has a workload of its own. `moved` and `count` likewise."""
    moved: Array
    count: Array
    matrix: NDArray[np.bool_]
    kinds: tuple[Kind, ...]


@lru_cache(maxsize=8)
def columns(workload: Workload) -> Columns:
    """The operators of a workload as columns; operators of one kind and nearly one size share a row."""
    groups: dict[tuple[Kind, int, int], list[Operator]] = {}
    for operator in workload.operators:
        if operator.kind is not Kind.TRANSFER and operator.count > 0:
            sizes = _size_class(operator.done_flop), _size_class(operator.moved_bytes)
            groups.setdefault((operator.kind, *sizes), []).append(operator)
    rows = []
    for (kind, *_), members in groups.items():
        count = math.fsum(operator.count for operator in members)
        flop = math.fsum(operator.done_flop * operator.count for operator in members) / count
        moved = math.fsum(operator.moved_bytes * operator.count for operator in members) / count
        rows.append((kind, flop, moved, count))
    return Columns(
        flop=np.array([row[1] for row in rows]),
        moved=np.array([row[2] for row in rows]),
        count=np.array([row[3] for row in rows]),
        matrix=np.array([row[0].on_matrix_units for row in rows], dtype=bool),
        kinds=tuple(row[0] for row in rows),
    )


def _size_class(value: float) -> int:
    """Factors of four."""
    return round(math.log2(value) / 2) if value > 1 else 0


def step(workload: Columns, device: Device, *, precision: Precision, draws: Draws, byte_factor: float = 1.0) -> Parts:
    """Seconds of one step on `device`, by part.

    Arguments:
        workload: its operators.
        precision: computed in.
        byte_factor: on all bytes, where `precision` is not the one that the workload was recorded in.
    """
    compute_s = _compute(workload, device, precision, draws)
    moved = workload.moved * draws.memory[:, None] * byte_factor
    memory_s = _from_memory(moved, device) / memory_rate(device)
    work_s = _overlapped(compute_s, memory_s)
    total = work_s * workload.count
    computing = compute_s > memory_s
    gap_s = np.where(workload.matrix, GAP_S + WAVE_S, GAP_S)
    if device.kind == "cpu":
        gap_s = np.full_like(gap_s, device.launch_s)
    floor_s = (gap_s * workload.count).sum(axis=-1)
    num_operators = workload.count.sum(axis=-1)
    shape = draws.compute.shape
    return Parts(
        compute_s=np.where(computing, total, 0.0).sum(axis=1),
        memory_s=np.where(computing, 0.0, total).sum(axis=1),
        floor_s=np.broadcast_to(floor_s, shape),
        host_s=draws.host_s * num_operators if device.kind == "gpu" else np.zeros(shape),
    )


def _overlapped(a: Array, b: Array) -> Array:
    """Computing and moving overlap, but not perfectly near the balance: the 4-norm instead of the larger."""
    a2, b2 = a * a, b * b
    return np.asarray(np.sqrt(np.sqrt(a2 * a2 + b2 * b2)))


def _compute(workload: Columns, device: Device, precision: Precision, draws: Draws) -> Array:
    """(D, K) seconds of computing."""
    rates = np.empty((2, len(workload.kinds)))
    for tf32 in (False, True):
        # Convolutions use TF32 unless a script switches it off (torch.backends.cudnn.allow_tf32).
        known = {
            kind: compute_rate(device, precision, kind, tf32=tf32 or kind is Kind.CONV) for kind in set(workload.kinds)
        }
        rates[int(tf32)] = [known[kind] for kind in workload.kinds]
    chosen = rates[draws.tf32.astype(int)]
    factor = np.where(workload.matrix, draws.compute[:, None], 1.0)
    return np.asarray(workload.flop / (chosen * factor))


def _from_memory(moved: Array, device: Device) -> Array:
    """(D, K) bytes, each weighed by how slow its way is: what the operator before left in the cache is cheaper."""
    table = constants()["prior"]["memory"]
    if device.kind == "cpu":
        return moved
    kept = np.minimum(table["cache_reuse"] * moved, 0.5 * device.cache)
    return np.asarray(moved - kept * (1 - 1 / table["cache_speed"]))
