"""`hotlap show`, `list` and `clean`: the studies that were made in this folder; `read`: one that a trace makes."""

import argparse
import shutil
import sys
from pathlib import Path

from hotlap.cli import storage, workbench
from hotlap.report import outcome, story, trace
from hotlap.report.clean import clean_line
from hotlap.trace import read_trace


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    {"show": _show, "list": _list, "clean": _clean, "read": _read}[args.command](args)
    return 0


def _show(args: argparse.Namespace) -> None:
    _, study = storage.found(args.study)[0]
    if args.perfetto is not None:
        workbench.write_text(Path(args.perfetto), trace.perfetto(study))
    workbench.hand_out(args, study)
    if args.perfetto is not None:
        print(f"{args.perfetto} was written: open it at https://ui.perfetto.dev.", file=sys.stderr)


def _read(args: argparse.Namespace) -> None:
    workbench.hand_out(args, read_trace(*args.traces))


def _list(args: argparse.Namespace) -> None:
    here = Path.cwd()
    found, paths = list(storage.known(here)), storage.studies(here)
    if not paths:
        print(f"There is no study {storage.shown(here)}.", file=sys.stderr)
    elif len(found) < len(paths):
        damaged = [clean_line(path.parent.name) for path in paths if path not in {path for path, _ in found}]
        print(f"{', '.join(damaged)} cannot be read; `hotlap show {damaged[0]}` says why.", file=sys.stderr)
    width = max((len(path.parent.name) for path, _ in found), default=0)
    for path, study in found:
        title, command = outcome.conclusion(study).title, clean_line(story.script(study))
        print(f"{clean_line(path.parent.name):{width}}  {study.purpose.value:7}  {title:24}  {command}")


def _clean(args: argparse.Namespace) -> None:
    gone = 0
    for path in storage.studies(Path.cwd())[args.keep :]:
        why = "its patch is applied" if (path.parent / "applied.json").exists() else None
        why = why or ("it is at work" if storage.is_at_work(path.parent) else None)
        if why is not None:
            print(f"{path.parent.name} stays: {why}.")
            continue
        if not args.check:
            shutil.rmtree(path.parent, ignore_errors=True)
            if path.parent.exists():
                print(f"{path.parent.name} stays: not all of it could be deleted.")
                continue
        gone += 1
    done = "would be" if args.check else "was" if gone == 1 else "were"
    print(f"{gone} {'study' if gone == 1 else 'studies'} {done} deleted.")
