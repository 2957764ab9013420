"""`hotlap read`: what does a recorded GPU trace say?"""

import argparse
import sys
from pathlib import Path

from hotlap.cli import words, workbench
from hotlap.trace import export, study


def add_parser(subparsers: words.Subparsers) -> None:
    """Its options."""
    parser = words.command(
        subparsers,
        "read",
        description="Reads traces that torch.profiler wrote (CUDA and ROCm; plain or gzip) and tells what each step "
        "waited for on the device, and what could be gained at best. Several traces are ranks of one job. No GPU is "
        "needed, and nothing is run.",
        examples=(
            "hotlap read trace.json.gz",
            "hotlap read --html report.html rank0.json rank1.json",
        ),
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="trace.json[.gz], a folder or a tar archive")
    words.add_outputs(parser, "json", "html", "markdown")
    parser.add_argument(
        "--gpu-timeline", metavar="PATH", help="write busy, idle and exposed times there, as CSV (of the rank shown)"
    )
    words.add_display(parser, progress=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    workbench.check_outputs(args)
    found, readings = study.read(args.traces)
    workbench.hand_out(args, found)
    if args.gpu_timeline is not None:
        workbench.write_text(Path(args.gpu_timeline), export.gpu_timeline(study.shown(found, readings)))
        print(f"{args.gpu_timeline} was written.", file=sys.stderr)
    return 0
