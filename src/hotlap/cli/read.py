"""`hotlap read`: what does a recorded GPU trace say?"""

import argparse

from hotlap.cli import workbench
from hotlap.trace import read_trace


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    workbench.hand_out(args, read_trace(*args.traces))
    return 0
