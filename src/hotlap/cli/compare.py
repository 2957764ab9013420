"""`hotlap compare`: is the step of one study slower than that of another? For CI, with an exit code."""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path

from hotlap.cli import shelf
from hotlap.cli.options import REGRESSION
from hotlap.cli.workbench import write_json
from hotlap.errors import UserError
from hotlap.record import Change, Study
from hotlap.report import side_by_side
from hotlap.trace import files, study
from hotlap.tune import contrast


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
