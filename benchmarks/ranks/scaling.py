"""Is what `hotlap predict --count` says of several devices what they do over an emulated link? Two to four processes.

    python benchmarks/ranks/scaling.py

The step of one process is measured and forecast for several, as if its device were in the catalogue, with a link of
that speed; then the several are measured. The computing of each is waiting (`scripts/scaling.py`).
"""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from run import SCRIPTS, measure

import results_file
from hotlap.predict import Workload, forecast, resolve
from hotlap.predict.catalogue import Device, Link
from hotlap.predict.links import REACHED

SCRIPT = SCRIPTS / "scaling.py"
STEPS = 12
LAYER_BYTES = 4e6
# (Gbit/s, layers, ms of each forward): from a link that takes a fifth of the step to one that takes twice as long.
CASES = ((1, 20, 50), (1, 20, 20), (1, 20, 10), (1, 20, 5), (1, 8, 10), (4, 8, 10))
COUNTS = (2, 3, 4)


def device(gbit: float, count: int) -> Device:
    """One whose link takes an emulated one's time: that takes as long for any number of processes, where a ring sends
    2(n-1)/n of the bytes."""
    bytes_s = gbit * 1e9 / 8 * 2 * (count - 1) / count / REACHED[Link.NVSWITCH][0][8]
    return replace(resolve("A100 SXM4 80GB").device, name="emulated", link=Link.NVSWITCH, link_bytes_s=2 * bytes_s)


def case(gbit: int, layers: int, ms: int) -> list[dict[str, Any]]:
    """A row for each number of processes."""
    words = (str(gbit), str(layers), str(ms))
    step_s = median(measure(SCRIPT, *words, count=1, steps=STEPS).step_s)
    num_bytes = layers * LAYER_BYTES
    work = Workload.from_totals(flop=1e12, memory_bytes=1e10, num_kernels=100, parameter_bytes=num_bytes)
    rows = []
    for count in COUNTS:
        of = device(gbit, count)
        found = forecast(work, target=of, count=count, measured_on=of, measured_step_s=step_s).step_s
        true_s = median(measure(SCRIPT, *words, count=count, steps=STEPS).step_s)
        rows.append(
            {"link_gbit": gbit, "gradients_mb": num_bytes / 1e6, "count": count, "alone_s": step_s}
            | {"predicted_s": found.mid, "measured_s": true_s, "off_percent": 100 * (found.mid / true_s - 1)}
            | {"inside": found.low <= true_s <= found.high}
        )
        print(rows[-1], flush=True)
    return rows


def write(rows: list[dict[str, Any]]) -> None:
    """The result."""
    off = [abs(row["off_percent"]) for row in rows]
    near = {"mid": sum(one <= 10 for one in off), "unit": f" of {len(rows)}"}
    claims = [
        {"claim": "predicted steps of 2 to 4 processes within 10% of the emulated truth", **near},
        {"claim": "predicted steps of 2 to 4 processes, off by (median)", "mid": median(off), "unit": "%"},
        {"claim": "predicted steps of 2 to 4 processes, off by (most)", "mid": max(off), "unit": "%"},
    ]
    results_file.write("ranks_scaling", claims=claims, results=rows)


def main() -> None:
    """All cases; the result is written after each."""
    rows: list[dict[str, Any]] = []
    for one in CASES:
        rows += case(*one)
        write(rows)


if __name__ == "__main__":
    main()
