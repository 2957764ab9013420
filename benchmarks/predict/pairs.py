"""Predictions between measured pairs of devices -> results/pairs.json: errors, baselines, coverage.

Nothing is judged on what it was fitted to. "Device held out": for each device that is predicted, all constants are
fitted again without any of its steps and operators. "Architecture held out": the same for all devices of one
architecture together, as if it were a new one. "Model held out": the same for each family of models. What ships is
fitted to all; its figures are given apart, as "in sample".
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import calibrate
import numpy as np
import splits
from measurements import Point
from splits import Split

from hotlap.predict import Workload, devices, forecast, resolve
from hotlap.predict.catalogue import Device
from hotlap.predict.precision import matrix_rate, parse

RESULTS = Path(__file__).with_name("results") / "pairs.json"


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """One pair, predicted with constants that its target had no part in."""

    here: Point
    there: Point
    errors: dict[str, float]
    """Of the model and of each baseline: log(predicted / measured)."""
    inside: bool
    half_width: float
    """Of the interval's logarithm."""


def predicted(here: Point, there: Point) -> Predicted:
    """One pair with the constants of the moment."""
    found = forecast(
        here.workload(), target=there.device, measured_on=here.device, measured_step_s=here.step_s
    ).step_s  # fmt: skip
    a, b = resolve(here.device).device, resolve(there.device).device
    flops = log(flop_ratio(a, b, here.precision))
    bandwidths = log(b.bandwidth / a.bandwidth)
    truth = log(there.step_s / here.step_s)
    values = (log(found.mid / there.step_s), -flops - truth, -bandwidths - truth, -(flops + bandwidths) / 2 - truth)
    return Predicted(
        here=here, there=there, errors=dict(zip(NAMES, values, strict=True)),
        inside=found.low <= there.step_s <= found.high, half_width=log(found.high / found.low) / 2,
    )  # fmt: skip


def summary(found: Sequence[Predicted]) -> dict[str, object]:
    """Errors, bias and coverage of some pairs."""
    return {
        "num_pairs": len(found),
        **{name: _size([one.errors[name] for one in found]) for name in NAMES},
        "bias": round(float(np.median([one.errors["model"] for one in found])), 3),
        "coverage": round(float(np.mean([one.inside for one in found])), 3),
        "half_width": round(float(np.median([one.half_width for one in found])), 3),
    }


NAMES = ("model", "flops", "bandwidths", "geometric_mean")


def flop_ratio(here: Device, there: Device, precision: str) -> float:
    kind = parse(precision)
    return matrix_rate(there, kind, tf32=False) / matrix_rate(here, kind, tf32=False)


def _size(values: list[float]) -> dict[str, float]:
    size = np.abs(values)
    return {"median": round(float(np.median(size)), 3), "p90": round(float(np.percentile(size, 90)), 3)}


def outcomes(parts: Iterable[Split]) -> list[Predicted]:
    """Every pair of all splits, each predicted with the constants of its own."""
    found = []
    for members, values in parts:
        with calibrate.constants(values):
            found += [predicted(a, b) for a, b in members]
    return found


def tables(found: Sequence[Predicted]) -> dict[str, object]:
    """All groups that are reported, of one way to split."""
    on_one = [one for one in found if splits.same_machine(one.here, one.there)]
    between = [one for one in found if not splits.same_machine(one.here, one.there)]

    def pair(one: Predicted) -> str:
        return f"{one.here.device} -> {one.there.device}, {one.here.precision}, {one.here.suite}"

    return {
        "all": summary(on_one),
        "by_precision": grouped(on_one, lambda one: one.here.precision),
        "by_pair": grouped(on_one, pair),
        "by_family": grouped(on_one, lambda one: f"{one.here.family}, {one.here.precision}", least=4),
        "between_machines": grouped(between, lambda one: f"between machines, {one.here.precision}"),
    }


def grouped(found: Iterable[Predicted], key: Callable[[Predicted], str], *, least: int = 1) -> dict[str, object]:
    """Name of a group -> its errors."""
    groups: dict[str, list[Predicted]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return {name: summary(members) for name, members in sorted(groups.items()) if len(members) >= least}


def main() -> None:
    points = splits.points()
    onto = [
        (a, b) for a, b in calibrate.pairs(points)
        if splits.has_tensor_units(a) != splits.has_tensor_units(b) and splits.same_machine(a, b)
    ]  # fmt: skip
    result = {
        "device_held_out": tables(outcomes(splits.by_device())),
        "architecture_held_out": tables(outcomes(splits.by_architecture())),
        "model_held_out": tables(outcomes(splits.by_model())),
        "in_sample": tables(outcomes([(splits.couples(points), {})])),
        "onto_or_off_matrix_units_fp16": summary(outcomes([(onto, {})])),
        "speed": {"sixty_devices_s": round(sixty(), 3)},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


def sixty() -> float:
    """Seconds of processor time that a forecast for sixty devices takes."""
    work = Workload.from_totals(flop=1e13, memory_bytes=1e11, num_kernels=900, parameter_bytes=1e8)
    names = [device.name for device in devices(kind="gpu")][:60]
    forecast(work, target=names[0])
    begin = time.process_time()
    for name in names:
        forecast(work, target=name, measured_on="RTX 3090", measured_step_s=0.3)
    return time.process_time() - begin


if __name__ == "__main__":
    main()
