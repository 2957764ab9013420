"""`hotlap levers`: which levers there are, and what came of each here."""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Mapping

from hotlap import levers
from hotlap.cli import shelf
from hotlap.cli.console import console
from hotlap.errors import RecordError, UserError
from hotlap.report import story
from hotlap.report.clean import clean_line

_LEGEND = (
    "What stays of training: every bit (exact), all but the last bits (rounding), as much as under another seed "
    "(statistical); recipe: it is another training, on request. `hotlap explain NAME` tells more."
)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    said = _in_study(args.study)
    width = console(sys.stdout).width
    for kind in levers.ALL + levers.RECIPES:
        first, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
        print(_wrapped(f"{kind.name:20} {kind.numerics:12} ", first, width=width))
        if kind.name in said:
            print(_wrapped(f"{'':20} here: ", clean_line(said[kind.name]), width=width))
    print()
    print(_wrapped("", _LEGEND, width=width))
    return 0


def _wrapped(label: str, text: str, *, width: int) -> str:
    """Lines of at most `width` columns, as far as words allow; the label stands in front of the first, others are
    indented as far."""
    indent = " " * len(label)
    return textwrap.fill(
        text, width, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


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
