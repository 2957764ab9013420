"""`hotlap machine`: what this machine can do at best, and what is wrong with it."""

import argparse
import sys

from hotlap.cli import console, workbench
from hotlap.machine.checkup import checkup
from hotlap.report import machine


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    workbench.check_outputs(args)
    found = checkup(quick=args.quick, doing=workbench.say_doing)
    workbench.write_json(args.json, found)
    if args.json != "-":
        console.show(sys.stdout, machine.sections(found), color=args.color)
    return 0
