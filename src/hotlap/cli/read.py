"""`hotlap read`: what does a recorded GPU trace say?"""

import argparse
import sys
from pathlib import Path

from hotlap.cli import workbench
from hotlap.trace import study
from hotlap.trace.reading import gpu_timeline


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    workbench.check_outputs(args)
    found, readings = study.read(args.traces)
    workbench.hand_out(args, found)
    if args.gpu_timeline is not None:
        workbench.write_text(Path(args.gpu_timeline), gpu_timeline(study.shown(found, readings)))
        print(f"{args.gpu_timeline} was written.", file=sys.stderr)
    return 0
