"""`hotlap list`: the studies that were made in this folder."""

import argparse
import sys
from pathlib import Path

from hotlap.cli import shelf
from hotlap.report import outcome, story
from hotlap.report.clean import clean_line


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    here = Path.cwd()
    found = list(shelf.known(here))
    if not found:
        print(f"There is no study {shelf.shown(here)}.", file=sys.stderr)
    width = max((len(path.parent.name) for path, _ in found), default=0)
    for path, study in found:
        title, command = outcome.conclusion(study).title, clean_line(story.script(study))
        print(f"{clean_line(path.parent.name):{width}}  {study.purpose.value:7}  {title:24}  {command}")
    return 0
