"""`hotlap machine`: what this machine can do at best, and what is wrong with it."""

import argparse
import sys

from hotlap.cli import console, words, workbench
from hotlap.machine.checkup import checkup
from hotlap.report import machine


def add_parser(subparsers: words.Subparsers) -> None:
    """Its options."""
    parser = words.command(
        subparsers,
        "machine",
        description="Measures matrix products, memory, operators, copies and the disk, and says what is wrong with the "
        "machine, what it costs, and how to fix it. Figures are kept in the user's cache folder for this "
        "hardware and these versions; what is wrong is looked at anew each time.",
        examples=(
            "hotlap machine",
            "hotlap machine --quick",
        ),
    )
    parser.add_argument("--json", metavar="PATH", help="write it there; - is standard output")
    parser.add_argument("--fresh", action="store_true", help="measure anew, whatever was measured before")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repeats: some seconds")
    words.add_display(parser, progress=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    workbench.check_writable((args.json,))
    found = checkup(fresh=args.fresh, quick=args.quick, doing=_say)
    workbench.write_json(args.json, found)
    if args.json != "-":
        console.show(sys.stdout, machine.sections(found), color=args.color)
    return 0


def _say(text: str) -> None:
    """Standard output is for the result."""
    print(f"hotlap: {text} ...", file=sys.stderr)
