"""`hotlap predict`: what the same training would take on hardware that is not there."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from hotlap.cli import forecast_table, traced, workbench
from hotlap.cli.forecast_table import Shown
from hotlap.cli.traced import Traced
from hotlap.errors import UserError
from hotlap.predict import Device, forecast, memory, own_devices, resolve, workload
from hotlap.predict.catalogue import devices
from hotlap.record import Checkup, load, save
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
    extra = own_devices.load(Path(args.devices)) if args.devices else ()
    if args.list:
        for device in (*extra, *devices()):
            print(device.name)
        return 0
    counts = _counts(args.count)
    # Names are checked before anything runs.
    for name in (*_gpus(args), args.measured_on or _USUAL[0]):
        resolve(name, extra=extra)
    workbench.check_outputs(args)
    hosts = host_of(load(Path(args.machine), Checkup)) if args.machine else {}
    known = _known(args, extra, counts=counts)
    shown = _forecasts(args, known, counts=counts, hosts=hosts)
    workbench.write_json(args.json, [row.prediction for row in shown.rows])
    if args.json != "-":
        forecast_table.show(shown, color=args.color)
    return 0


def _gpus(args: argparse.Namespace) -> Sequence[str]:
    """Names of those that are shown."""
    if args.gpu == []:
        raise UserError("--gpu names nothing. Give names as in --gpu 4090,H100; --list shows them all.")
    return args.gpu or _USUAL


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UserError(f'--count {text} is not a list of numbers from 1 up, as in "1,2,4".')
    return counts


def host_of(found: Checkup) -> dict[str, float]:
    """The record of a machine -> seconds that its host takes for one operator on each GPU in it, by the GPU's name."""
    chains = {one.device: one.value.mid for one in found.figures if one.name == "operator-autograd"}
    # Each link of the measured chain is an operator and its gradient.
    hosts = {
        resolve(name).device.name: chains[f"cuda:{index}"] / 2
        for index, name in enumerate(found.machine.gpus)
        if f"cuda:{index}" in chains
    }
    if not hosts:
        raise UserError("--machine: no GPU's calls were timed. Run `hotlap machine --json FILE` where the GPU is.")
    return hosts


def _known(args: argparse.Namespace, extra: tuple[Device, ...], *, counts: tuple[int, ...]) -> Traced:
    """The step that everything is predicted from."""
    _check_together(args, counts)
    if args.workload:
        found = traced.Traced(work=workload.load(Path(args.workload)), device=None, step_s=None, devices=extra)
    elif args.trace:
        found = traced.recorded(args.trace, parameters=args.parameters, devices=extra)
    else:
        found = traced.trace(args.tail, timeout_s=args.timeout, devices=extra)
    if args.save_workload:
        workbench.write(Path(args.save_workload), lambda path: save(found.work, path))
    if args.measured_step is None:
        return found
    _check_unit(found, args.measured_on, args.measured_step)
    # A host that was timed beside the script is not the one of a step that was measured elsewhere.
    return replace(found, work=replace(found.work, host_s=None), device=args.measured_on, step_s=args.measured_step)


def _check_unit(known: Traced, name: str, step_s: float) -> None:
    """Refuse a time that no such device can reach. A processor's rates are typical ones only."""
    device = resolve(name, extra=known.devices).device
    times = known.work.flop / step_s / max(device.fp32, device.fp16, device.fp64, device.tf32, device.tensor)
    if times > _OVER_PEAK and not device.is_cpu:
        raise UserError(
            f"--measured-step {duration(step_s)}: the {known.work.flop:.2g} operations of this step would be "
            f"{number(times)} times what {device.name} does at its peak. Is the unit right?"
        )


def _check_together(args: argparse.Namespace, counts: tuple[int, ...]) -> None:
    """Refuse what does not go together."""
    given = sum(map(bool, (args.tail, args.trace, args.workload)))
    if not given:
        raise UserError("Which training? Give a script, -m MODULE, -- COMMAND, --trace FILE or --workload FILE.")
    if given > 1:
        raise UserError("Give a script, --trace or --workload: one of them.")
    if args.trace and max(counts) > 1 and not args.parameters:
        raise UserError(
            "A trace does not tell how many parameters the model has: give --parameters for --count above 1."
        )
    if args.interconnect is not None and max(counts) == 1 and "interconnect" not in args.configured:
        raise UserError("--interconnect is for several GPUs: give --count.")
    if args.parameters is not None and not args.trace and "parameters" not in args.configured:
        raise UserError("--parameters is for --trace: a script's are counted, and a workload says how many it has.")
    if args.parameters is not None and not 0 < args.parameters < math.inf:
        raise UserError(f"--parameters {args.parameters:g} is not a number of parameters, as in 124e6.")
    if (args.measured_on is None) != (args.measured_step is None):
        raise UserError("--measured-on and --measured-step belong together.")


def _forecasts(
    args: argparse.Namespace,
    known: Traced,
    *,
    counts: tuple[int, ...],
    hosts: dict[str, float],
) -> Shown:
    rows = []
    epoch = args.steps_per_epoch or known.steps_per_epoch
    for name, count in product(_gpus(args), counts):
        # Data that are trained on make no larger batch than all of them.
        most = epoch / count if epoch else math.inf
        factor = min(_batch_factor(args, known, name), max(1.0, most)) if args.fill else 1.0
        one = forecast(
            known.work,
            target=name,
            count=count,
            precision=args.precision,
            measured_on=known.device,
            measured_step_s=known.step_s,
            host_s=hosts.get(resolve(name, extra=known.devices).device.name),
            interconnect=args.interconnect if count > 1 else None,
            batch_factor=factor,
            devices=known.devices,
        )
        rows.append(forecast_table.Row(prediction=one, batches=factor * count))
    return Shown(known=known, rows=tuple(rows), steps_per_epoch=epoch, precision=args.precision, filled=args.fill)


def _batch_factor(args: argparse.Namespace, known: Traced, name: str) -> float:
    """Times today's batch that fits on a GPU of that name."""
    precision = forecast_table.computed_in(known.work, args.precision)
    factor = memory.largest_batch_factor(known.work, resolve(name, extra=known.devices).device, precision=precision)
    if factor is None:
        raise UserError("--fill needs a traced script: this step does not say how much memory it takes.")
    today = known.work.batch_size
    # Whole samples; that one does not fit is said by the forecast.
    return max(1, int(today * factor)) / today if today else factor or 1.0
