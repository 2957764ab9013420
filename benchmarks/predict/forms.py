"""Other constants of the model of time, judged by the same pairs -> results/forms.json.

PYTHONPATH=src python benchmarks/predict/forms.py
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from math import log
from pathlib import Path
from unittest.mock import patch

import calibrate
import numpy as np
from judge import GROUPS

from hotlap.predict import timing, workload

RESULTS = Path(__file__).with_name("results") / "forms.json"
# What each sets, in place of what is kept.
FORMS: Mapping[str, Mapping[str, float]] = {
    "kept": {},
    "power of the board left out": {"JOULES_POWER": 0.0},
    "its power 0.15": {"JOULES_POWER": 0.15},
    "0.3": {"JOULES_POWER": 0.3},
    "products by bandwidth less than by the peak, 0.4": {"BALANCE_POWER": 0.4},
    "by bandwidth more, 0.6": {"BALANCE_POWER": 0.6},
    "products reach 0.5 of the peak": {"PRODUCTS": 0.5},
    "0.7": {"PRODUCTS": 0.7},
    "0.4 of the bytes travel": {"MOVED": 0.4},
    "0.8": {"MOVED": 0.8},
    "3 us of gap": {"GAP_S": 3e-6},
    "8 us": {"GAP_S": 8e-6},
    "25 GB/s in flight for each multiprocessor": {"IN_FLIGHT_BYTES_S": 25e9},
    "33 GB/s": {"IN_FLIGHT_BYTES_S": 33e9},
    "50 GB/s": {"IN_FLIGHT_BYTES_S": 50e9},
    "as many bytes in flight in half precision": {"MIXED_IN_FLIGHT": 1.0},
    "half as many": {"MIXED_IN_FLIGHT": 0.5},
    "convolutions as products in half precision": {"MIXED_CONVOLUTIONS": 1.0},
    "0.6 of products": {"MIXED_CONVOLUTIONS": 0.6},
    "all of the bandwidth is reached": {"IN_FLIGHT_BYTES_S": 1e18},
    "parameters travel for each item": {"PARAMETER_PASSES": 0.0},
}
SHOWN = (
    "all", "newest workstation generation, A6000 <-> 6000 Ada", "within Hopper", "FP32-only -> Ampere and later",
    "to A100 and H100", "batch that fills the memory of one",
)  # fmt: skip


def errors(settings: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Group -> median and 90th percentile of its errors, with these settings."""
    with ExitStack() as stack:
        for name, value in settings.items():
            stack.enter_context(patch.object(workload if hasattr(workload, name) else timing, name, value))
        found, halved = calibrate.pairs(), [*calibrate.halved()]
    table = {group: _sizes(one.error for one in found if GROUPS[group](one)) for group in SHOWN}
    for source in ("torchvision", "lambda"):
        table[f"to half precision, {source}"] = _sizes(
            log(step_s.mid / there.step_s) for _, there, step_s in halved if there.suite.startswith(source)
        )
    return table


def _sizes(errors: Iterable[float]) -> tuple[float, float]:
    sizes = [abs(one) for one in errors]
    return round(float(np.median(sizes)), 3), round(float(np.percentile(sizes, 90)), 3)


if __name__ == "__main__":
    RESULTS.write_text(json.dumps({name: errors(settings) for name, settings in FORMS.items()}, indent=1) + "\n")
    print(RESULTS.read_text())
