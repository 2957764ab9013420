"""`hotlap compare`: is the step of one study slower than that of another? For CI, with an exit code."""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from hotlap.cli import shelf, words
from hotlap.cli.workbench import write_json
from hotlap.errors import UserError
from hotlap.record import Change, Study
from hotlap.report import side_by_side
from hotlap.trace import files, study
from hotlap.tune import contrast

REGRESSION = 5
"""Exit code when the step is slower by more than the limit, clearly."""


def add_parser(subparsers: words.Subparsers) -> None:
    """Its options."""
    parser = words.command(
        subparsers,
        "compare",
        description="Compares the baseline in study A with that in study B, or traces that torch.profiler "
        "recorded on a GPU. Refuses where the device, the "
        "versions, the arguments or the machine differ, because the step times then say nothing about the code.",
        examples=(
            "hotlap compare .hotlap/train-20260504-093000 .hotlap/train-20260511-101500 --max-regression 5%",
            "hotlap compare before.json.gz after.json.gz",
        ),
        note=f"Exit code {REGRESSION} says that B is slower by more than --max-regression, by all of the 95% interval. "
        "Inconclusive is 0, and is said.",
    )
    for name in ("A", "B"):
        parser.add_argument(name.lower(), metavar=name, help="folder of a study, its JSON file, or a trace")
    parser.add_argument("--max-regression", metavar="PERCENT", help="how much slower B may be, as 5%%")
    parser.add_argument("--allow-different", action="store_true", help="compare what differs all the same")
    parser.add_argument("--json", metavar="PATH", help="write the comparison there; - is standard output")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    limit = share(args.max_regression) if args.max_regression is not None else None
    base, other = _study(args.a), _study(args.b)
    found = contrast.differences(base, other)
    if found and not args.allow_different:
        raise UserError(
            f"{args.a} and {args.b} cannot be compared, for they differ in more than the code ({'; '.join(found)}). "
            "Measure both in one place, or say --allow-different."
        )
    comparison = contrast.contrast(base, other, names=(args.a, args.b), limit=limit)
    print(side_by_side.text(comparison), end="", file=sys.stderr if args.json == "-" else sys.stdout)
    write_json(args.json, comparison)
    return REGRESSION if limit is not None and comparison.change is Change.SLOWER else 0


def _study(name: str) -> Study:
    """By its folder or file; or of a trace, whose name says nothing of its training."""
    if not files.is_trace(Path(name)):
        return shelf.named(name)[1]
    found, _ = study.read([name])
    return replace(found, command=())


def share(text: str) -> float:
    """ "5%" or "0.5%" -> 0.05 or 0.005.

    Raises:
        UserError: it is no percentage.
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6})?)\s*%?", text.strip())
    if match is None:
        raise UserError(f"--max-regression {text} is not a percentage. Give one as in --max-regression 5%.")
    return float(match[1]) / 100
