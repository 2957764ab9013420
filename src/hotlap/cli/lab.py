"""`hotlap lab`: the founding experiments, on this machine."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.cli import words
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.lab import Experiment, Settings
    from hotlap.lab.result import Result

_USAGE = "hotlap lab [NAME [options] [SCRIPT [ARGS...]]]"
# Options of single experiments, as Settings names them.
_OWN = ("gpu", "data", "budget", "html")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = words.command(
        subparsers,
        "lab",
        summary="the founding experiments on this machine; without a name: which there are",
        description="Repeats one of the experiments that hotlap was founded on, on this machine, and explains what "
        "came "
        "out. Where no GPU is here, its figures are predicted, with intervals, and marked. Without NAME: the list.",
        examples=(
            "hotlap lab",
            "hotlap lab pinning --quick",
        ),
        note="What stands behind SCRIPT goes to the training as it is.",
        usage=_USAGE,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the experiment")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: under 20 s on a quiet machine")
    parser.add_argument("--gpu", action="extend", type=words.several, metavar="NAME,NAME", help="GPUs to predict")
    parser.add_argument("--data", metavar="DIR", help="pinning, devices: folder with MNIST's files")
    parser.add_argument(
        "--budget", metavar="TIME", help="pinning, lorenz, transformer, checklist: time for what is tried"
    )
    parser.add_argument("--json", metavar="PATH", help="write the result there; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write the report page of the study there")
    words.add_display(parser, progress=False)
    parser.set_defaults(run=run, own_words=1)  # the experiment


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.cli import workbench
    from hotlap.lab import by_name

    if args.name is None:
        _list()
        return 0
    experiment = by_name(args.name)
    settings = _settings(args, experiment)
    workbench.check_writable((args.json, args.html))
    _hand_out(args, experiment.run(settings, _say))
    return 0


def _list() -> None:
    from hotlap.lab import EXPERIMENTS

    for one in EXPERIMENTS:
        print(f"{one.name:14} {one.asks}")
    print("\nhotlap lab NAME runs one; --quick takes some seconds instead of minutes, --json PATH writes the figures.")


def _settings(args: argparse.Namespace, experiment: "Experiment") -> "Settings":
    """What the user wishes.

    Raises:
        UserError: an option does nothing here, or its value makes no sense.
    """
    from hotlap.lab import Settings
    from hotlap.predict import resolve

    for name in _OWN:
        if getattr(args, name) is not None and name not in experiment.takes:
            raise UserError(f"--{name} does nothing in `hotlap lab {experiment.name}`; leave it out.")
    if args.tail and "script" not in experiment.takes:
        raise UserError(f"`hotlap lab {experiment.name}` takes no script, so what is {args.tail[0]!r}?")
    # Names are checked before anything runs.
    for name in args.gpu or ():
        resolve(name)
    return Settings(
        quick=args.quick,
        gpu=tuple(args.gpu or ()),
        data=Path(args.data) if args.data is not None else None,
        budget_s=words.seconds(args.budget, "--budget") if args.budget is not None else None,
        words=tuple(args.tail),
    )


def _hand_out(args: argparse.Namespace, result: "Result") -> None:
    from hotlap.cli import workbench
    from hotlap.record import encode

    if args.json not in (None, "-"):
        data = encode(result) + b"\n"
        workbench.write(Path(args.json), lambda path: path.write_bytes(data))
    if args.html is not None:
        from hotlap.report import html

        assert result.study is not None, "an experiment that takes --html has a study"
        workbench.write_text(Path(args.html), html.render(result.study))
    if args.json == "-":
        sys.stdout.write(encode(result).decode() + "\n")
        return
    from hotlap.cli import console
    from hotlap.lab.result import sections

    console.show(sys.stdout, sections(result), color=args.color)


def _say(text: str) -> None:
    """Standard output is for the result."""
    from hotlap.report.clean import clean_line

    print(f"hotlap: {clean_line(text)} ...", file=sys.stderr)
