"""`hotlap predict`: what the same training would take on hardware that is not there."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.errors import NoSteps, ScriptFailed, UserError

if TYPE_CHECKING:
    from hotlap.predict.catalogue import Device
    from hotlap.predict.workload import Workload
    from hotlap.record import Prediction

_USAGE = "hotlap predict [options] (SCRIPT [ARGS...] | -m MODULE [ARGS...] | --workload FILE)"
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
_OUTPUT_TAIL = 4000


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = subparsers.add_parser(
        "predict",
        usage=_USAGE,
        help="foretell the training on other GPUs, and on several",
        description="Runs a few steps of the script here, traces one, and foretells a step on other hardware, with an "
        "80% interval. The script is not changed, and ends after the traced step.",
        epilog="What stands behind SCRIPT or MODULE goes to the training as it is.",
    )
    parser.add_argument("--gpu", action="append", metavar="NAME", help="a device; may be given again")
    parser.add_argument("--count", default="1", metavar="N,N", help="numbers of GPUs, as 1,2,4 (default: 1)")
    parser.add_argument("--precision", metavar="NAME", help="fp32, fp32-ieee, tf32, fp16, bf16 (default: the script's)")
    parser.add_argument("--interconnect", choices=("nvlink", "pcie", "pcie-no-p2p"), help="how the GPUs are connected")
    parser.add_argument("--strong", action="store_true", help="several GPUs share the batch of one")
    parser.add_argument("--devices", metavar="FILE", help="further devices, in TOML")
    parser.add_argument("--workload", metavar="FILE", help="use a traced step that was saved, instead of a script")
    parser.add_argument("--save-workload", metavar="FILE", help="keep the traced step")
    parser.add_argument("--measured-on", metavar="NAME", help="with --workload: device that the step was measured on")
    parser.add_argument("--measured-step", type=float, metavar="SECONDS", help="with --workload: its time there")
    parser.add_argument("--steps-per-epoch", type=int, metavar="N", help="for the price of an epoch")
    parser.add_argument("--price", type=float, metavar="PER_HOUR", help="of one GPU; shows the price of an epoch")
    parser.add_argument("--levers", action="store_true", help="also foretell what single changes would give there")
    parser.add_argument("--timeout", type=float, default=600.0, metavar="SECONDS", help="for the traced run (600)")
    parser.add_argument("--json", metavar="PATH", help="write the predictions there; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write a page with a plot there")
    parser.add_argument("--list", action="store_true", help="show the names of all devices, and end")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help=argparse.SUPPRESS)
    parser.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.predict import catalogue

    extra = catalogue.load(Path(args.devices)) if args.devices else ()
    if args.list:
        for device in (*extra, *catalogue.devices()):
            print(device.name)
        return 0
    counts = _counts(args.count)
    # Names are checked before anything runs.
    names = tuple(catalogue.resolve(name, extra=extra).device.name for name in args.gpu or _USUAL)
    work, measured, extra = _workload(args, extra)
    found = _forecasts(args, work, measured, extra=extra, names=tuple(args.gpu or names), counts=counts)
    if args.json:
        _write(args.json, json.dumps([_as_json(prediction) for prediction in found], indent=1) + "\n")
    if args.html:
        from hotlap.predict import page

        _write(args.html, page.render(found, title=work.name or "training", measured=measured))
    if args.json != "-":
        _show(args, work, found, measured, extra=extra)
    return 0


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UserError(f'--count {text} is not a list of numbers from 1 up, as in "1,2,4".')
    return counts


def _workload(
    args: argparse.Namespace, extra: "tuple[Device, ...]"
) -> "tuple[Workload, tuple[str, float] | None, tuple[Device, ...]]":
    """The traced step, where and how fast it was measured, and the devices of the user with this one if it is new."""
    from hotlap.predict import catalogue, workload

    words = ["-m", *args.module] if args.module else list(args.words or getattr(args, "tail", ()))
    if args.workload:
        if words:
            raise UserError("Give a script or --workload, not both.")
        if (args.measured_on is None) != (args.measured_step is None):
            raise UserError("--measured-on and --measured-step belong together.")
        known = None if args.measured_on is None else (args.measured_on, args.measured_step)
        return workload.load(Path(args.workload)), known, extra
    if not words:
        raise UserError("Which training? Give a script, -m MODULE, or --workload FILE.")
    work, device, step_s = _trace(words, timeout_s=args.timeout)
    if args.save_workload:
        workload.save(work, Path(args.save_workload))
    if device != "cpu":
        return work, (device, step_s), extra
    from hotlap.machine.look import look

    here = look()
    try:
        catalogue.resolve(here.processor, extra=extra)
    except UserError:
        extra = (*extra, catalogue.unknown_cpu(here.processor, cores=here.num_cores))
    return work, (here.processor, step_s), extra


def _trace(words: list[str], *, timeout_s: float) -> "tuple[Workload, str, float]":
    """Run the script until one step is traced: the step, the device, and seconds of a plain step."""
    from hotlap.cli.target import check_script
    from hotlap.predict import workload

    if words[0] != "-m":
        check_script(Path(words[0]), words[0])
    with tempfile.TemporaryDirectory(prefix="hotlap-") as folder:
        code, output = _child(words, Path(folder), timeout_s=timeout_s)
        path = Path(folder) / "workload.json"
        if path.exists():
            measured = json.loads((Path(folder) / "measured.json").read_text())
            return workload.load(path), str(measured["device"]), float(measured["step_s"])
    if code is None:
        raise NoSteps(f"{words[0]} made too few optimizer steps in {timeout_s:.0f} s. Raise --timeout.", output=output)
    if code != 0:
        raise ScriptFailed(f"{words[0]} ended with code {code} before a step was traced.", output=output)
    raise NoSteps(
        f"{words[0]} ended before a step was traced: 3 steps of a torch optimizer to warm up, 8 to time and 1 to trace "
        "are needed.",
        output=output,
    )


def _child(words: list[str], folder: Path, *, timeout_s: float) -> tuple[int | None, str]:
    """Exit code (None: out of time) and the end of what the script printed to stderr."""
    log = folder / "stderr"
    # The user's folder must not shadow our packages, nor ours his: the child is started by path of this hotlap.
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(":")}
    command = [sys.executable, "-m", "hotlap.predict.child", str(folder), *words]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # Loader workers outlive a parent that left by os._exit.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, 9)
    return code, log.read_bytes()[-_OUTPUT_TAIL:].decode("utf-8", "replace")


def _forecasts(
    args: argparse.Namespace,
    work: "Workload",
    measured: "tuple[str, float] | None",
    *,
    extra: "tuple[Device, ...]",
    names: tuple[str, ...],
    counts: tuple[int, ...],
) -> "list[Prediction]":
    from hotlap.predict import forecast

    return [
        forecast(
            work,
            target=name,
            count=count,
            precision=args.precision,
            measured_on=measured[0] if measured else None,
            measured_step_s=measured[1] if measured else None,
            interconnect=args.interconnect if count > 1 else None,
            strong=args.strong,
            devices=extra,
        )
        for name in names
        for count in counts
    ]


def _as_json(prediction: "Prediction") -> dict[str, Any]:
    step = prediction.step_s
    return {
        "device": prediction.device,
        "count": prediction.count,
        "step_s": {"low": step.low, "mid": step.mid, "high": step.high},
        "efficiency": prediction.efficiency,
        "bound_by": prediction.bound_by,
        "fits": prediction.fits,
        "assumptions": list(prediction.assumptions),
    }


def _write(path: str, text: str) -> None:
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None


def _show(
    args: argparse.Namespace,
    work: "Workload",
    found: "list[Prediction]",
    measured: "tuple[str, float] | None",
    *,
    extra: "tuple[Device, ...]",
) -> None:
    from rich.console import Console
    from rich.table import Table

    from hotlap.predict import outlook
    from hotlap.units import duration, factor

    # A pipe has no width of its own: lines are kept whole there.
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)
    if measured:
        console.print(f"{work.name or 'The step'} takes {duration(measured[1])} on {measured[0]}.", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    head = ["device", "count", "step", "80% interval", "speed-up", "efficiency", "bound by", "fits", "J a step"]
    priced = args.price is not None and args.steps_per_epoch is not None
    for name in [*head, *(["price an epoch"] if priced else [])]:
        table.add_column(name, no_wrap=True)
    for one in found:
        step = one.step_s
        cells = [
            one.device,
            str(one.count),
            duration(step.mid),
            f"{duration(step.low)} to {duration(step.high)}",
            factor(measured[1] * (1 if args.strong else one.count) / step.mid) if measured else "-",
            f"{one.efficiency:.2f}" if one.efficiency is not None and one.count > 1 else "-",
            one.bound_by,
            {True: "yes", False: "no", None: "?"}[one.fits],
            f"{outlook.energy_j(one, devices=extra):.3g}",
        ]
        if priced:
            steps = max(1, round(args.steps_per_epoch / one.count))
            cells.append(f"{outlook.price(one, num_steps=steps, per_hour=args.price):.2f}")
        table.add_row(*cells)
    console.print(table)
    for note in dict.fromkeys(note for one in found for note in one.assumptions):
        console.print(f"  assumed: {note}", markup=False)
    if args.levers:
        _show_levers(console, work, dict.fromkeys(one.device for one in found), extra)


def _show_levers(console: Any, work: "Workload", names: "dict[str, None]", extra: "tuple[Device, ...]") -> None:
    from hotlap.predict import outlook
    from hotlap.units import factor, percent

    for name in names:
        console.print(f"\nOn {name}, a change alone would give:", markup=False)
        for one in outlook.levers(work, target=name, devices=extra):
            gain = one.speedup
            console.print(
                f"  {one.lever:16} {factor(gain.mid)} ({factor(gain.low)} to {factor(gain.high)}), "
                f"slower with a chance of {percent(one.slower_chance)}",
                markup=False,
            )
