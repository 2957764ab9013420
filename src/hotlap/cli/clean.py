"""`hotlap clean`: delete studies that were made in this folder."""

import argparse
import shutil
from pathlib import Path

from hotlap.cli import shelf, words


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    gone = 0
    for path in shelf.studies(Path.cwd())[words.whole_number(args.keep, "--keep") :]:
        why = "its patch is applied" if (path.parent / "applied.json").exists() else None
        why = why or ("it is at work" if shelf.is_at_work(path.parent) else None)
        if why is not None:
            print(f"{path.parent.name} stays: {why}.")
            continue
        gone += 1
        if not args.check:
            shutil.rmtree(path.parent, ignore_errors=True)
    done = "would be" if args.check else "was" if gone == 1 else "were"
    print(f"{gone} {'study' if gone == 1 else 'studies'} {done} deleted.")
    return 0
