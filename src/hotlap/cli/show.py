"""`hotlap show`: the report of a study again."""

import argparse
import sys
from pathlib import Path

from hotlap.cli import shelf, workbench
from hotlap.report import trace


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    workbench.check_outputs(args)
    _, study = shelf.chosen(args.study)
    if args.perfetto is not None:
        workbench.write_text(Path(args.perfetto), trace.perfetto(study))
    workbench.hand_out(args, study)
    if args.perfetto is not None:
        print(f"{args.perfetto} was written: open it at https://ui.perfetto.dev.", file=sys.stderr)
    return 0
