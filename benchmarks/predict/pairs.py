"""Predictions between measured pairs of devices -> results/pairs.json: errors, baselines, coverage.

Nothing is judged on what it was fitted to. "Device held out": for each device that is foretold, all constants are
fitted again without any of its steps and operators. "Model held out": the same for each family of models. What ships is
fitted to all; its figures are given apart, as "in sample".
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import log
from pathlib import Path

import calibrate
import numpy as np
import splits
from measurements import Point
from splits import Couple, Split

from hotlap.predict import Workload, devices, forecast, resolve
from hotlap.predict.catalogue import Device
from hotlap.predict.precision import matrix_rate, parse

RESULTS = Path(__file__).with_name("results") / "pairs.json"


@dataclass(frozen=True, kw_only=True)
class Foretold:
    """Logarithms of foretold over measured, for some pairs, and what the intervals did."""

    errors: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in NAMES})
    inside: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, here: Point, there: Point) -> None:
        """Foretell one pair with the constants of the moment."""
        found = forecast(
            here.workload(), target=there.device, measured_on=here.device, measured_step_s=here.step_s
        ).step_s
        a, b = resolve(here.device).device, resolve(there.device).device
        flops = log(flop_ratio(a, b, here.precision))
        bandwidths = log(b.bandwidth / a.bandwidth)
        truth = log(there.step_s / here.step_s)
        for name, value in zip(
            NAMES,
            (log(found.mid / there.step_s), -flops - truth, -bandwidths - truth, -(flops + bandwidths) / 2 - truth),
            strict=True,
        ):
            self.errors[name].append(value)
        self.inside.append(found.low <= there.step_s <= found.high)
        self.widths.append(log(found.high / found.low) / 2)

    def summary(self) -> dict[str, object]:
        return {
            "num_pairs": len(self.inside),
            **{name: _size(values) for name, values in self.errors.items()},
            "bias": round(float(np.median(self.errors["model"])), 3),
            "coverage": round(float(np.mean(self.inside)), 3),
            "half_width": round(float(np.median(self.widths)), 3),
        }


NAMES = ("model", "flops", "bandwidths", "geometric_mean")


def flop_ratio(here: Device, there: Device, precision: str) -> float:
    kind = parse(precision)
    return matrix_rate(there, kind, tf32=False) / matrix_rate(here, kind, tf32=False)


def judged(chosen: Iterable[Couple]) -> dict[str, object]:
    """Errors of the model and of each baseline over some pairs."""
    found = Foretold()
    for here, there in chosen:
        found.add(here, there)
    return found.summary()


def _size(values: list[float]) -> dict[str, float]:
    size = np.abs(values)
    return {"median": round(float(np.median(size)), 3), "p90": round(float(np.percentile(size, 90)), 3)}


def table(parts: Iterable[Split], key: Callable[[Point, Point], str | None], *, least: int = 1) -> dict[str, object]:
    """Group -> errors, over splits; `key` names the group of a pair, None: it is left out."""
    groups: dict[str, Foretold] = {}
    for members, values in parts:
        with calibrate.constants(values):
            for a, b in members:
                name = key(a, b)
                if name is not None:
                    groups.setdefault(name, Foretold()).add(a, b)
    return {name: found.summary() for name, found in sorted(groups.items()) if len(found.inside) >= least}


def tables(parts: list[Split]) -> dict[str, object]:
    """All groups that are reported, of one way to split."""

    def on_one(name: Callable[[Point, Point], str]) -> Callable[[Point, Point], str | None]:
        return lambda a, b: name(a, b) if splits.same_machine(a, b) else None

    return {
        "all": table(parts, on_one(lambda a, b: "all"))["all"],
        "by_precision": table(parts, on_one(lambda a, b: a.precision)),
        "by_pair": table(parts, on_one(lambda a, b: f"{a.device} -> {b.device}, {a.precision}, {a.suite}")),
        "by_family": table(parts, on_one(lambda a, b: f"{a.family}, {a.precision}"), least=4),
        "between_machines": table(
            parts, lambda a, b: None if splits.same_machine(a, b) else f"between machines, {a.precision}"
        ),
    }


def main() -> None:
    points = splits.points()
    onto = [
        (a, b) for a, b in calibrate.pairs(points)
        if splits.has_tensor_units(a) != splits.has_tensor_units(b) and splits.same_machine(a, b)
    ]  # fmt: skip
    result = {
        "device_held_out": tables(splits.by_device()),
        "model_held_out": tables(splits.by_model()),
        "in_sample": tables([(splits.couples(points), {})]),
        "onto_or_off_matrix_units_fp16": judged(onto),
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
