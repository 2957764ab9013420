"""Runs in processes of its own, which may import torch: `python -m hotlap.lab.child.TASK QUESTION ANSWER`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hotlap.record import load, save

Q = TypeVar("Q")


def answer(kind: type[Q], work: Callable[[Q], object]) -> None:
    """Read the question, work, write the answer."""
    save(work(load(Path(sys.argv[1]), kind)), Path(sys.argv[2]))
