"""Predictions between measured pairs of devices -> results/pairs.json: errors, baselines, coverage.

Nothing is judged on what it was fitted to: "device held out" puts the priors back for every device of the pair whose
constants were fitted to steps; "model held out" fits on half of the models and reports the other half.
"""

import json
import time
from collections.abc import Callable, Iterable
from math import log
from pathlib import Path

import calibrate
import measurements
import numpy as np
from measurements import Point

from hotlap.predict import Workload, devices, forecast, resolve
from hotlap.predict.catalogue import Device
from hotlap.predict.precision import matrix_rate, parse

RESULTS = Path(__file__).with_name("results") / "pairs.json"
TURING = ("prior", "fp32_efficiency", "turing")
# The prior of the one constant that was fitted to steps of the torchvision suites.
TURING_PRIOR = 0.88


def flop_ratio(here: Device, there: Device, precision: str) -> float:
    kind = parse(precision)
    return matrix_rate(there, kind, tf32=False) / matrix_rate(here, kind, tf32=False)


def judged(chosen: Iterable[tuple[Point, Point]]) -> dict[str, object]:
    """Errors of the model and of each baseline over some pairs."""
    errors: dict[str, list[float]] = {"model": [], "flops": [], "bandwidths": [], "geometric_mean": []}
    inside, widths = [], []
    for here, there in chosen:
        foretold = forecast(
            here.workload(), target=there.device, measured_on=here.device, measured_step_s=here.step_s
        ).step_s
        a, b = resolve(here.device).device, resolve(there.device).device
        flops = log(flop_ratio(a, b, here.precision))
        bandwidths = log(b.bandwidth / a.bandwidth)
        truth = log(there.step_s / here.step_s)
        errors["model"].append(log(foretold.mid / there.step_s))
        errors["flops"].append(-flops - truth)
        errors["bandwidths"].append(-bandwidths - truth)
        errors["geometric_mean"].append(-(flops + bandwidths) / 2 - truth)
        inside.append(foretold.low <= there.step_s <= foretold.high)
        widths.append(log(foretold.high / foretold.low) / 2)
    return {
        "num_pairs": len(inside),
        **{name: _size(values) for name, values in errors.items()},
        "bias": round(float(np.median(errors["model"])), 3),
        "coverage": round(float(np.mean(inside)), 3),
        "half_width": round(float(np.median(widths)), 3),
    }


def _size(values: list[float]) -> dict[str, float]:
    size = np.abs(values)
    return {"median": round(float(np.median(size)), 3), "p90": round(float(np.percentile(size, 90)), 3)}


def table(
    all_pairs: list[tuple[Point, Point]], key: Callable[[Point, Point], str], *, least: int = 1
) -> dict[str, object]:
    groups: dict[str, list[tuple[Point, Point]]] = {}
    for a, b in all_pairs:
        groups.setdefault(key(a, b), []).append((a, b))
    return {name: judged(members) for name, members in sorted(groups.items()) if len(members) >= least}


def kept(points: Iterable[Point]) -> list[tuple[Point, Point]]:
    """Pairs of one suite: between suites the machines differ too (see between_machines)."""
    return [(a, b) for a, b in calibrate.pairs(points) if a.suite == b.suite]


def has_tensor_units(point: Point) -> bool:
    return point.precision == "fp32" or resolve(point.device).device.tensor > 0


def main() -> None:
    vision, words = list(measurements.torchvision_points()), list(measurements.transformer_points())
    same = [pair for pair in kept([*vision, *words]) if has_tensor_units(pair[0]) == has_tensor_units(pair[1])]
    between = [(a, b) for a, b in calibrate.pairs(vision) if a.suite != b.suite and a.precision == "fp32"]
    onto = [pair for pair in kept(vision) if has_tensor_units(pair[0]) != has_tensor_units(pair[1])]

    def pair_name(a: Point, b: Point) -> str:
        return f"{a.device} -> {b.device}, {a.precision}, {a.suite}"

    result: dict[str, object] = {
        "shipped": {
            "by_pair": table(same, pair_name),
            "by_family": table(same, lambda a, _: f"{a.family}, {a.precision}", least=4),
            "by_precision": table(same, lambda a, _: a.precision),
            "all": judged(same),
        },
        "between_machines_fp32": judged(between),
        "onto_or_off_matrix_units_fp16": judged(onto),
    }
    with calibrate.constants({TURING: TURING_PRIOR}):
        result["device_held_out"] = {"by_precision": table(same, lambda a, _: a.precision), "all": judged(same)}
    names = sorted({point.model for point in vision})
    half = {name for index, name in enumerate(names) if index % 2 == 0}
    value = calibrate.turing(point for point in vision if point.model in half)
    with calibrate.constants({TURING: value}):
        others = [pair for pair in same if pair[0].model not in half and pair[0].suite.startswith("torchvision")]
        result["model_held_out"] = {"turing": value, "all": judged(others)}
    result["speed"] = {"sixty_devices_s": round(sixty(), 3)}
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
