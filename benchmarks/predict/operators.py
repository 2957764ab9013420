"""Sums of measured operators taken as training steps -> results/operators.json: devices for which no step was measured.

Forty operators of one kind, drawn at random, are one "step": FP32 without TF32, as they were measured (NeuSight, MIT).
Only `linear` on V100, A100 and P100 was used for constants (their FP32 efficiency); the other rows are held out.
"""

import csv
import gzip
import json
import random
from math import log
from pathlib import Path

import numpy as np
from measurements import DATA

from hotlap.predict import Kind, Workload, forecast

RESULTS = Path(__file__).with_name("results") / "operators.json"
NAMES = {
    "V100-PCIE-32GB": "Tesla V100 PCIe 32GB", "P100-PCIE-16GB": "Tesla P100 PCIe 16GB", "T4": "Tesla T4",
    "A100-PCIE-40GB": "A100 PCIe 40GB", "A100_80GB_PCIe": "A100 PCIe 80GB",
}  # fmt: skip
CONVOLUTION = ("B", "Input_Channel", "Output_Channel", "Kernel_Szie", "Input_Size", "Stride", "Padding")
NUM_OPERATORS = 40
# Shorter ones are mostly the gap of a measurement that waits for each operator.
LEAST_S = {"linear": 4e-4, "conv": 4e-4, "softmax": 1e-4}

Row = tuple[float, float, float]
"""Operations, bytes, seconds."""


def linear(row: dict[str, str]) -> tuple[tuple[int, ...], float, float]:
    batch, m, n, k = (int(float(row[name])) for name in "BMNK")
    return (batch, m, n, k), 2.0 * batch * m * n * k, 4.0 * (batch * m * k + n * k + batch * m * n)


def conv(row: dict[str, str]) -> tuple[tuple[int, ...], float, float]:
    shape = tuple(int(row[name]) for name in CONVOLUTION)
    batch, inputs, outputs, kernel, size, stride, padding = shape
    out = (size + 2 * padding - kernel) // stride + 1
    moved = batch * inputs * size**2 + batch * outputs * out**2 + inputs * outputs * kernel**2
    return shape, 2.0 * batch * inputs * outputs * kernel**2 * out**2, 4.0 * moved


def softmax(row: dict[str, str]) -> tuple[tuple[int, ...], float, float]:
    shape = (int(row["B"]), int(row["H"]))
    return shape, 0.0, 8.0 * shape[0] * shape[1]


READERS = {"linear": linear, "conv": conv, "softmax": softmax}


def measured(kind: str) -> dict[str, dict[tuple[int, ...], Row]]:
    """Device -> shape -> what it computes, moves and takes."""
    found: dict[str, dict[tuple[int, ...], Row]] = {}
    for path in sorted((DATA / "neusight").glob(f"optrain_{kind}_*.csv.gz")):
        device = next((name for key, name in NAMES.items() if path.name.endswith(f"{key}.csv.gz")), None)
        if device is None:
            continue
        with gzip.open(path, "rt") as lines:
            for row in csv.DictReader(lines):
                shape, flop, moved = READERS[kind](row)
                found.setdefault(device, {})[shape] = (flop, moved, float(row["Latency"]) / 1e3)
    return found


def judged(here: str, there: str, rows: list[tuple[Row, Row]], draw: random.Random, *, kind: Kind) -> dict[str, float]:
    errors, inside = [], []
    for _ in range(40):
        chosen = draw.sample(rows, NUM_OPERATORS)
        work = Workload.from_totals(
            flop=sum(a[0] for a, _ in chosen), memory_bytes=sum(a[1] for a, _ in chosen),
            num_kernels=NUM_OPERATORS, precision="fp32-ieee", kind=kind,
        )  # fmt: skip
        truth = sum(b[2] for _, b in chosen)
        found = forecast(work, target=there, measured_on=here, measured_step_s=sum(a[2] for a, _ in chosen)).step_s
        errors.append(log(found.mid / truth))
        inside.append(found.low <= truth <= found.high)
    size = np.abs(errors)
    return {
        "median": round(float(np.median(size)), 3), "p90": round(float(np.percentile(size, 90)), 3),
        "bias": round(float(np.median(errors)), 3), "coverage": round(float(np.mean(inside)), 3),
    }  # fmt: skip


def main() -> None:
    draw = random.Random(0)
    result = {}
    for kind, least_s in LEAST_S.items():
        by_device = measured(kind)
        for here, known in by_device.items():
            for there, others in by_device.items():
                rows = [(known[s], others[s]) for s in known if s in others and known[s][2] > least_s]
                if here != there and there.startswith(("A100", "Tesla V100")) and len(rows) >= 200:
                    result[f"{here} -> {there}, {kind}"] = judged(
                        here, there, rows, draw, kind=Kind.CONV if kind == "conv" else Kind.MATMUL
                    )
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
