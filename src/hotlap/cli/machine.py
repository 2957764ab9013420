"""`hotlap machine`: what this machine can do at best, and what is wrong with it."""

import argparse

from hotlap.cli import workbench
from hotlap.machine.checkup import checkup
from hotlap.report import machine


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    found = checkup(quick=args.quick, doing=workbench.say_doing)
    workbench.show_result(args, found, machine.sections(found))
    return 0
