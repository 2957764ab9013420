"""`hotlap levers`: which levers there are, and what came of each here."""

import argparse
import inspect
from collections.abc import Mapping

from hotlap import levers
from hotlap.cli import shelf
from hotlap.errors import RecordError, UserError
from hotlap.report import story
from hotlap.report.clean import clean_line


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    said = _in_study(args.study)
    for kind in levers.ALL + levers.RECIPES:
        first, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
        print(f"{kind.name:20} {kind.numerics:12} {' '.join(first.split())}")
        if kind.name in said:
            print(f"{'':20} here: {clean_line(said[kind.name])}")
    print(
        "\nWhat stays of training: every bit (exact), all but the last bits (rounding), as much as under another seed\n"
        "(statistical); recipe: it is another training, on request. `hotlap explain NAME` tells more."
    )
    return 0


def _in_study(name: str | None) -> Mapping[str, str]:
    """Lever -> what came of it in the study; nothing where there is none and none was named."""
    try:
        _, study = shelf.chosen(name)
    except (UserError, RecordError):
        if name is not None:
            raise
        return {}
    return {
        str(trial.levers[0].get("name")): f"{story.trial_outcome(trial)}. {trial.why.removeprefix('Not tried. ')}"
        for trial in study.trials
        if len(trial.levers) == 1
    }
