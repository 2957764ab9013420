"""`hotlap explain` and `hotlap levers`: what a finding or a lever is, and which levers there are."""

import argparse
import inspect
from collections.abc import Iterator, Mapping

from hotlap.cli import words
from hotlap.errors import RecordError, UserError


def add_explain(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about `hotlap explain`."""
    parser = words.command(
        subparsers,
        "explain",
        summary="explain a finding or a lever",
        description="Explains a finding (input-bound, sync-bound, ...) or a lever (cached-dataset, ...): what it is, "
        "why, an example, and when it hurts.",
        examples=("hotlap explain input-bound", "hotlap explain cached-dataset"),
    )
    parser.add_argument("name", metavar="NAME", help="of a finding or a lever; `all` lists them")
    parser.set_defaults(run=explain)


def add_levers(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about `hotlap levers`."""
    parser = words.command(
        subparsers,
        "levers",
        summary="list what is tried, and why some of it does not apply",
        description="Lists all levers: what each promises about numbers, and what it does. Where a study was made "
        "here, also what came of each in it, and why those that were not tried do not apply.",
        examples=("hotlap levers", "hotlap levers .hotlap/train-20260504-093000"),
    )
    parser.add_argument("study", nargs="?", metavar="STUDY", help=words.STUDY_HELP)
    parser.set_defaults(run=levers)


def explain(args: argparse.Namespace) -> int:
    """`hotlap explain`; the exit code."""
    from hotlap import levers, rules

    known = {kind.name: _lever_text(kind) for kind in (*levers.ALL, *levers.RECIPES)}
    known |= {code: inspect.cleandoc(text) for code, text in rules.EXPLANATIONS.items()}
    if args.name == "all":
        print("\n".join(sorted(known)))
        return 0
    if args.name not in known:
        raise UserError(f"There is no finding or lever {args.name!r}. `hotlap explain all` lists them.")
    print(f"{known[args.name]}\n\n{_page(args.name, is_rule=args.name in rules.ALL)}")
    return 0


def _lever_text(kind: type) -> str:
    return f"{getattr(kind, 'name', '')}: {inspect.cleandoc(kind.__doc__ or '')}"


def _page(name: str, *, is_rule: bool) -> str:
    if is_rule:
        return "Where it costs you time: hotlap measure train.py"
    return f"To try it alone: hotlap tune --levers {name} train.py"


def levers(args: argparse.Namespace) -> int:
    """`hotlap levers`; the exit code."""
    from hotlap.report.clean import clean_line

    said = _in_study(args.study)
    for name, numerics, what in _all():
        print(f"{name:20} {numerics:12} {what}")
        if name in said:
            print(f"{'':20} here: {clean_line(said[name])}")
    return 0


def _all() -> Iterator[tuple[str, str, str]]:
    """(name, what it promises about numbers, the first sentence about it)."""
    from hotlap import levers

    for kind in (*levers.ALL, *levers.RECIPES):
        first, _, _ = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
        yield kind.name, str(kind.numerics), " ".join(first.split())


def _in_study(name: str | None) -> Mapping[str, str]:
    """Lever -> what came of it in the study; nothing where there is none and none was named."""
    from hotlap.cli import shelf
    from hotlap.report import story

    try:
        _, study = shelf.chosen(name)
    except (UserError, RecordError):
        if name is not None:
            raise
        return {}
    alone = [trial for trial in study.trials if len(trial.levers) == 1]
    return {
        str(trial.levers[0].get("name")): f"{story.trial_outcome(trial)}. {trial.why.removeprefix('Not tried. ')}"
        for trial in alone
    }
