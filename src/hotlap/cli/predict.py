"""`hotlap predict`: what the same training would take on hardware that is not there."""

import argparse
from dataclasses import replace
from itertools import product
from pathlib import Path

from hotlap.cli import forecast_table, traced, workbench
from hotlap.cli.forecast_table import Shown
from hotlap.cli.traced import Traced
from hotlap.errors import UserError
from hotlap.predict import devices, forecast, resolve, workload
from hotlap.predict.precision import parse
from hotlap.record import save
from hotlap.units import count as number
from hotlap.units import duration

# Shown when no --gpu is given: one of each class that people rent or buy.
_USUAL = (
    "RTX 3090",
    "RTX 4090",
    "RTX 5090",
    "L4",
    "A10G",
    "L40S",
    "A100 SXM4 80GB",
    "H100 SXM5 80GB",
    "H200 SXM 141GB",
)

# A measured step that does so many times the operations of the device's highest rate has lost its unit, a thousandfold.
# What can be true: counters overstate grouped convolutions tenfold, Winograd needs one of 2.25 that are counted.
_OVER_PEAK = 20.0


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if args.list:
        for device in devices():
            print(device.name)
        return 0
    counts = _counts(args.count)
    # Names are checked before anything runs.
    gpus = args.gpu or _USUAL
    for name in (*gpus, args.measured_on or gpus[0]):
        resolve(name)
    if args.precision is not None:
        parse(args.precision)
    known = _known(args)
    found = tuple(
        forecast(
            known.work,
            target=name,
            count=count,
            precision=args.precision,
            measured_on=known.device,
            measured_step_s=known.step_s,
            interconnect=args.interconnect if count > 1 else None,
        )
        for name, count in product(gpus, counts)
    )
    workbench.write_json(args.json, found)
    if args.json != "-":
        forecast_table.show(Shown(known=known, predictions=found, precision=args.precision), color=args.color)
    return 0


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UserError(f'--count {text} is not a list of numbers from 1 up, as in "1,2,4".')
    return counts


def _known(args: argparse.Namespace) -> Traced:
    """The step that everything is predicted from."""
    if bool(args.tail) == bool(args.workload):
        raise UserError("Which training? Give one: a script, -m MODULE, -- COMMAND, or --workload FILE.")
    if (args.measured_on is None) != (args.measured_step is None):
        raise UserError("--measured-on and --measured-step belong together.")
    if args.workload:
        found = Traced(work=workload.load(Path(args.workload)), device=None, step_s=None)
    else:
        found = traced.trace(args.tail, timeout_s=args.timeout)
    if args.save_workload:
        workbench.write(Path(args.save_workload), lambda path: save(found.work, path))
    if args.measured_step is None:
        return found
    _check_unit(found, args.measured_on, args.measured_step)
    # A host that was timed beside the script is not the one of a step that was measured elsewhere.
    return replace(found, work=replace(found.work, host_s=None), device=args.measured_on, step_s=args.measured_step)


def _check_unit(known: Traced, name: str, step_s: float) -> None:
    """Refuse a time that no such device can reach."""
    device = resolve(name).device
    times = known.work.flop / step_s / max(device.fp32, device.fp16, device.fp64, device.tf32, device.tensor)
    if times > _OVER_PEAK:
        raise UserError(
            f"--measured-step {duration(step_s)}: the {known.work.flop:.2g} operations of this step would be "
            f"{number(times)} times what {device.name} does at its peak. Is the unit right?"
        )
