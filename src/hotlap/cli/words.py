"""The words of a command line that runs a training: where ours end and the training's begin, and what ours say."""

import argparse
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from hotlap.errors import UserError
from hotlap.units import num_bytes

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

# Below it nothing could be done, and "8" was meant to be gigabytes.
_LEAST_MEMORY_BYTES = 1_000_000

# Option -> what it is given, and what it does; the same in every command that has it.
_OUTPUTS = {
    "json": "write the study there as well; - is standard output",
    "html": "write the report page there as well",
    "markdown": "write a report for a pull request there",
}

_TRAINING = "(SCRIPT [ARGS...] | -m MODULE [ARGS...] | -- COMMAND...)"
_THEIRS = "What stands behind SCRIPT, MODULE or -- goes to the training as it is."


class _Help(argparse.RawDescriptionHelpFormatter):
    """Descriptions are wrapped, and examples are not."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.split("\n")
        return "\n".join(one if one.startswith("  ") else textwrap.fill(one, width) for one in lines)


def command(subparsers: Subparsers, add_options: Callable[[argparse.ArgumentParser], None]) -> None:
    """Adds the parser of the command that the function is named after. Its docstring is what help says: paragraphs
    with a summary, what the command does, examples, and what else there is to say."""
    name = add_options.__name__.removeprefix("_")
    _, description, examples, *notes = (add_options.__doc__ or "\n\n\n\n").split("\n\n")
    parser = subparsers.add_parser(
        name, allow_abbrev=False, formatter_class=_Help, description=" ".join(description.split())
    )
    add_options(parser)
    if parser.get_default("trains"):
        parser.usage = parser.usage or f"hotlap {name} [options] {_TRAINING}"
        notes += [_THEIRS] * (not parser.get_default("own_words"))
    epilog = ["examples:", *(f"  {one.strip()}" for one in examples.strip().split("\n"))]
    parser.epilog = "\n".join([*epilog, "", *([" ".join(" ".join(notes).split())] if notes else []), _MORE])


_MORE = "Exit codes, and all commands: hotlap --help"


def add_display(parser: argparse.ArgumentParser, *, progress: bool = True) -> None:
    """What is shown on the terminal; of a command with `progress`, how much."""
    if progress:
        much = parser.add_mutually_exclusive_group()
        much.add_argument("-q", "--quiet", action="store_true", help="say nothing but errors; `hotlap show` tells all")
        much.add_argument(
            "-v", "--verbose", action="store_true", help="a line for all that is done, and for levers that do not apply"
        )
        parser.set_defaults(sections=True)  # else the study alone is handed over, as to a notebook
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto, on a terminal)"
    )


def add_outputs(parser: argparse.ArgumentParser, *names: str) -> None:
    """Options for files that a study is written to; all of them where none is named."""
    for name in names or _OUTPUTS:
        parser.add_argument(f"--{name}", metavar="PATH", help=_OUTPUTS[name])


# Options that name a file to write.
_WRITTEN = ("json", "html", "markdown", "perfetto", "save_workload")


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse before anything runs what could not be written at the end.

    Raises:
        UserError: names it.
    """
    for option in _WRITTEN:
        name = getattr(args, option, None)
        if name is None or (option == "json" and name == "-"):
            continue
        if name == "-":
            raise UserError(
                f"--{option.replace('_', '-')} wants the name of a file: of standard output only --json knows."
            )
        path = Path(name)
        if path.is_dir():
            raise UserError(f"{name} is a folder. Give the name of a file.")
        if not path.absolute().parent.is_dir():
            raise UserError(f"{name} cannot be written: there is no folder {path.parent}.")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f"{name} cannot be written: it is in a place that is read-only for you.")


def add_study(parser: argparse.ArgumentParser, default: str = "the newest that was made here") -> None:
    """Which study a command is about."""
    help_ = f"name of a study (hotlap list), its JSON file, or a script, for its newest study (default: {default})"
    parser.add_argument("study", nargs="?", metavar="STUDY", help=help_)


def add_time(parser: argparse.ArgumentParser, option: str, help_: str, *, default: str | None = None) -> None:
    """An option whose value is seconds to the command."""
    parser.add_argument(option, metavar="TIME", type=partial(seconds, option=option), default=default, help=help_)


def add_number(
    parser: argparse.ArgumentParser, option: str, help_: str, *, default: str | None = None, least: int = 0
) -> None:
    """An option whose value is a whole number from `least` up."""
    kind = partial(whole_number, option=option, least=least)
    parser.add_argument(option, metavar="N", type=kind, default=default, help=help_)


def add_names(parser: argparse.ArgumentParser, option: str, help_: str, *, of: str = "LEVERS") -> None:
    """An option whose value is a tuple of names, of one at least: levers, or GPUs."""
    parser.add_argument(option, metavar=of, type=partial(names, option=option), help=help_)


def split_command(words: Sequence[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Command line -> (words for hotlap, words of the training): cut at the first word that is no option of ours.

    A command that runs a training says by the default `own_words` how many words that are no options come before those;
    behind the last of them all is the training's where it `trains` whatever is named.
    """
    command = commands(parser).get(words[0]) if words else None
    ours = None if command is None else command.get_default("own_words")
    if command is None or ours is None:
        return list(words), []
    index = 1
    with_values = value_options(command)
    while index < len(words):
        word = words[index]
        if word in ("-m", "--"):
            break
        if not word.startswith("-"):
            if not ours:
                break
            ours -= 1
            if not ours and command.get_default("trains"):
                index += 1
                break
        index += 2 if word in with_values else 1
    return list(words[:index]), list(words[index:])


def with_values(words: Sequence[str], command: argparse.ArgumentParser) -> list[str]:
    """`--budget -5s` as `--budget=-5s`: argparse would take such a value for an option, and not say what is wrong."""
    found: list[str] = []
    taking = value_options(command)
    for word in words:
        is_value = word.startswith("-") and word.partition("=")[0] not in {"--", *command._option_string_actions}
        if found and found[-1] in taking and is_value:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def commands(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Name -> parser."""
    (action,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return action.choices


def value_options(command: argparse.ArgumentParser) -> frozenset[str]:
    """Options that are followed by a value."""
    return frozenset(name for action in command._actions if action.nargs != 0 for name in action.option_strings)


def seconds(text: str, option: str) -> float:
    """ "5m", "90s", "1.5h", "80ms" or "300" -> seconds.

    Raises:
        UserError: it is none of these, or not above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)?", text.strip())
    value = float(match[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1, None: 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if value <= 0:
        raise UserError(f"{option} {text} is not a time. Give one as in {option} 90s, {option} 5m or {option} 1h.")
    return value


def whole_number(text: str, option: str, *, least: int = 0) -> int:
    """A number of steps, or a seed.

    Raises:
        UserError: it is no whole number, or out of range.
    """
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UserError(f"{option} {text} is not a whole number from {least} to 999999999.")
    return int(text)


def share(text: str, option: str = "--max-regression") -> float:
    """ "5%" or "0.5" -> 0.05 or 0.005.

    Raises:
        UserError: it is no percentage.
    """
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,6})?)\s*%?", text.strip())
    if match is None:
        raise UserError(f"{option} {text} is not a percentage. Give one as in {option} 5%.")
    return float(match[1]) / 100


def memory(text: str | None, environ: Mapping[str, str]) -> int | None:
    """Bytes of `--memory`, else of the variable that has the same effect; None where nothing is said.

    Raises:
        UserError: it is no size, or so small that its unit must have been forgotten.
    """
    from hotlap.data.item_cache.memory import VARIABLE

    option = "--memory"
    if text is None:
        option, text = VARIABLE, environ.get(VARIABLE)
    if not text:
        return None
    found = num_bytes(text)
    if found is None or found < _LEAST_MEMORY_BYTES:
        raise UserError(f"{option} {text} is not a size from 1MB. Give one as in {option} 8GB or {option} 500MB.")
    return found


def names(text: str, option: str) -> tuple[str, ...]:
    """ "a, b" -> ("a", "b").

    Raises:
        UserError: there is none.
    """
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        example = "4090,H100" if option == "--gpu" else "threads,cached-dataset"
        raise UserError(f"{option} names nothing. Give names as in {option} {example}.")
    return found
