"""`hotlap show`: the report of a study again."""

import argparse
import sys
from pathlib import Path

from hotlap.cli import shelf, words, workbench
from hotlap.report import trace


def add_parser(subparsers: words.Subparsers) -> None:
    """Its options."""
    parser = words.command(
        subparsers,
        "show",
        description="Shows a study that was made here: the newest, or the one that is named. Nothing is run.",
        examples=(
            "hotlap show",
            "hotlap show .hotlap/train-20260504-093000 --html report.html",
            "hotlap show --perfetto trace.json",
        ),
    )
    parser.add_argument("study", nargs="?", metavar="STUDY", help=words.STUDY_HELP)
    words.add_display(parser, progress=False)
    words.add_outputs(parser)
    parser.add_argument("--perfetto", metavar="PATH", help="write some steps there, as they went, for ui.perfetto.dev")
    parser.set_defaults(run=run)


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
