"""`hotlap lab`: the founding experiments, on this machine."""

import argparse
import sys

from hotlap import lab
from hotlap.cli import console, words, workbench
from hotlap.errors import UserError
from hotlap.lab.result import sections
from hotlap.predict import resolve
from hotlap.report.clean import clean_line

_USAGE = "hotlap lab [NAME [options] [SCRIPT [ARGS...]]]"
# Options of single experiments, as Settings names them.
_OWN = ("gpu", "budget", "html")


def add_parser(subparsers: words.Subparsers) -> None:
    """Its options."""
    parser = words.command(
        subparsers,
        "lab",
        description="Repeats one of the experiments that hotlap was founded on, on this machine, and explains what "
        "came out. Where no GPU is here, its figures are predicted, with intervals, and marked. Without NAME: the "
        "list.",
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
    parser.add_argument(
        "--budget", metavar="TIME", help="pinning, lorenz, transformer, checklist: time for what is tried"
    )
    parser.add_argument("--json", metavar="PATH", help="write the result there; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write the report page of the study there")
    words.add_display(parser, progress=False)
    parser.set_defaults(run=run, own_words=1)  # the experiment


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if args.name is None:
        _list()
        return 0
    settings = _settings(args)
    workbench.check_writable((args.json, args.html))
    result = lab.run(args.name, settings, _say)
    if result.study is not None:
        workbench.write_pages(args, result.study)
    workbench.write_json(args.json, result)
    if args.json != "-":
        console.show(sys.stdout, sections(result), color=args.color)
    return 0


def _list() -> None:
    for name in lab.EXPERIMENTS:
        print(f"{name:14} {lab.asks(name)}")
    print("\nhotlap lab NAME runs one; --quick takes some seconds instead of minutes, --json PATH writes the figures.")


def _settings(args: argparse.Namespace) -> lab.Settings:
    """What the user wishes.

    Raises:
        UserError: an option does nothing here, or its value makes no sense.
    """
    takes = lab.file_of(args.name).TAKES
    for name in _OWN:
        if getattr(args, name) is not None and name not in takes:
            raise UserError(f"--{name} does nothing in `hotlap lab {args.name}`; leave it out.")
    if args.tail and "script" not in takes:
        raise UserError(f"`hotlap lab {args.name}` takes no script, so what is {args.tail[0]!r}?")
    # Names are checked before anything runs.
    for name in args.gpu or ():
        resolve(name)
    return lab.Settings(
        quick=args.quick,
        gpu=tuple(args.gpu or ()),
        budget_s=words.seconds(args.budget, "--budget") if args.budget is not None else None,
        words=tuple(args.tail),
    )


def _say(text: str) -> None:
    """Standard output is for the result."""
    print(f"hotlap: {clean_line(text)} ...", file=sys.stderr)
