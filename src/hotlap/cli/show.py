"""`hotlap show`, `hotlap list` and `hotlap clean`: the studies that were made in this folder."""

import argparse
import shutil
import sys
from pathlib import Path

from hotlap.cli import words


def add_show(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about `hotlap show`."""
    parser = words.command(
        subparsers,
        "show",
        summary="show the report of a study again",
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
    parser.set_defaults(run=show)


def add_list(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about `hotlap list`."""
    parser = words.command(
        subparsers,
        "list",
        summary="list the studies that were made here",
        description="Lists the studies that were made in this folder, the newest first: when, of what, and what each "
        "came to.",
        examples=("hotlap list",),
    )
    parser.set_defaults(run=listing)


def add_clean(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about `hotlap clean`."""
    parser = words.command(
        subparsers,
        "clean",
        summary="delete studies that were made here",
        description="Deletes the studies that were made in this folder. One that is at work, and one whose patch is "
        "applied (it takes it back), stays.",
        examples=("hotlap clean --check", "hotlap clean --keep 3"),
    )
    parser.add_argument("--keep", default="0", metavar="N", help="leave the newest N (default: 0)")
    parser.add_argument("--check", action="store_true", help="say what would be done, and change nothing")
    parser.set_defaults(run=clean)


def show(args: argparse.Namespace) -> int:
    """`hotlap show`; the exit code."""
    from hotlap.cli import shelf, workbench
    from hotlap.report import trace

    workbench.check_outputs(args)
    _, study = shelf.chosen(args.study)
    if args.perfetto is not None:
        workbench.write_text(Path(args.perfetto), trace.perfetto(study))
    workbench.hand_out(args, study)
    if args.perfetto is not None:
        print(f"{args.perfetto} was written: open it at https://ui.perfetto.dev.", file=sys.stderr)
    return 0


def listing(args: argparse.Namespace) -> int:
    """`hotlap list`; the exit code."""
    from hotlap.cli import shelf
    from hotlap.report import outcome, story
    from hotlap.report.clean import clean_line

    here = Path.cwd()
    found = list(shelf.known(here))
    if not found:
        print(f"There is no study {shelf.shown(here)}.", file=sys.stderr)
    for path, study in found:
        folder = path.parent if path.parent.parent != shelf.root(here) else Path(path.parent.name)
        title, command = outcome.conclusion(study).title, clean_line(story.script(study))
        print(f"{clean_line(str(folder))}  {study.purpose.value:7}  {title:24}  {command}")
    return 0


def clean(args: argparse.Namespace) -> int:
    """`hotlap clean`; the exit code."""
    from hotlap.cli import shelf

    keep = words.whole_number(args.keep, "--keep")
    gone = 0
    for path in shelf.studies(Path.cwd())[keep:]:
        why = "its patch is applied" if (path.parent / "applied.json").exists() else None
        why = why or ("it is at work" if shelf.is_at_work(path.parent) else None)
        if why is not None:
            print(f"{path.parent.name} stays: {why}.")
            continue
        gone += 1
        if not args.check:
            shutil.rmtree(path.parent, ignore_errors=True)
    print(f"{gone} {'study' if gone == 1 else 'studies'} {'would be' if args.check else 'were'} deleted.")
    return 0
