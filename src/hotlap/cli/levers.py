"""`hotlap levers` and `hotlap explain`: all levers, and what came of each here; what one, or a finding, is."""

import argparse
import inspect
import sys
import textwrap
from collections.abc import Mapping

from hotlap import levers, rules
from hotlap.cli import storage
from hotlap.cli.console import console
from hotlap.errors import UserError, nearest
from hotlap.report import story
from hotlap.report.clean import clean_line

_LEGEND = (
    "What stays of training: every bit (exact), all but the last bits (rounding), as much as under another seed "
    "(statistical); recipe: it is another training, on request. `hotlap explain NAME` tells more."
)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    known = {kind: inspect.cleandoc(kind.__doc__ or "") for kind in levers.ALL + levers.RECIPES}
    if args.command == "explain":
        texts = {kind.name: f"{kind.name}: {text}" for kind, text in known.items()}
        _explain(args.name, texts | {code: inspect.cleandoc(text) for code, text in rules.EXPLANATIONS.items()})
        return 0
    said = _in_study(args.study)
    for kind, text in known.items():
        _print(f"{kind.name:20} {kind.numerics:12} ", text.partition("\n\n")[0])
        if kind.name in said:
            _print(f"{'':20} here: ", clean_line(said[kind.name]))
    print()
    _print("", _LEGEND)
    return 0


def _explain(name: str, texts: Mapping[str, str]) -> None:
    if name == "all":
        print("\n".join(sorted(texts)))
    elif name not in texts:
        raise UserError(
            f"There is no finding or lever {name!r}{nearest(name, texts) or '.'} `hotlap explain all` lists them."
        )
    else:
        print(f"{texts[name]}\n")
        command = "measure" if name in rules.ALL else f"tune --levers {name}"
        print(f"{'Where it costs you time' if name in rules.ALL else 'To try it alone'}: hotlap {command} train.py")


def _print(label: str, text: str) -> None:
    """Lines as wide as the terminal, as far as words allow; the label stands in front of the first, others are indented
    as far."""
    width, indent = console(sys.stdout).width, " " * len(label)
    print(
        textwrap.fill(
            text, width, initial_indent=label, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
    )


def _in_study(name: str | None) -> Mapping[str, str]:
    """Lever -> what came of it in the study; nothing where there is none and none was named."""
    try:
        _, study = storage.found(name)[0]
    except UserError:
        if name is not None:
            raise
        return {}
    return {
        str(trial.levers[0].get("name")): f"{story.trial_outcome(trial)}. {trial.why.removeprefix('Not tried. ')}"
        for trial in study.trials
        if len(trial.levers) == 1
    }
