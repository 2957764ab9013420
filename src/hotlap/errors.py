"""What can go wrong, by whose fault it is: the user's input, the user's script, or (all else) hotlap."""

from collections.abc import Iterable, Sequence
from typing import Any


def nearest(word: str, known: Iterable[str]) -> str:
    """A question that names the word that was meant, behind a full stop; empty where none is like this one."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(known), n=1, cutoff=0.7)
    return f". Did you mean {found[0]}?" if found else ""


class HotlapError(Exception):
    """Any failure that hotlap expects; its message says what happened and what to do about it.

    `output` is the end of what the user's script printed, its own traceback included, shown as it is.
    """

    exit_code = 1

    def __init__(self, message: str, *, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class UserError(HotlapError):
    """The input cannot be used: shown as one sentence, exit code 2, never with a traceback."""

    exit_code = 2


class RecordError(UserError):
    """A saved file is damaged, or newer than this hotlap."""


class ScriptFailed(HotlapError):  # noqa: N818 - reads as the sentence "the script failed"
    """The user's script ended with an error of its own; exit code 3."""

    exit_code = 3


class NoSteps(HotlapError):  # noqa: N818 - reads as the sentence "no steps"
    """The script ran, but made no training step that could be measured; exit code 4."""

    exit_code = 4


class Interrupted(KeyboardInterrupt):
    """The user has ended hotlap while the script ran; `runs` (`record.Run`): what was measured until then."""

    def __init__(self, runs: Sequence[Any]) -> None:
        super().__init__()
        self.runs = runs
