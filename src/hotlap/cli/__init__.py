"""A file for each command, or for a few that are one thing; what prints, exits, and catches our errors is only here."""

import argparse
import contextlib
import errno
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path

import hotlap
from hotlap.cli import configuration, streams
from hotlap.cli.options import COMMANDS
from hotlap.cli.target import source
from hotlap.cli.words import check_outputs, command, commands, split_command, with_values
from hotlap.errors import HotlapError, UserError, nearest

_EPILOG = """\
hotlap COMMAND --help has options and examples. Defaults stand in [tool.hotlap] of pyproject.toml.

exit codes:
  0    done (also when nothing faster was found)
  1    an error of hotlap's own; please report it
  2    the command line, or a file that it names, cannot be used
  3    the training script failed; its own error is shown
  4    the script made no training step, or too few to measure
  10   check: the gate fails the edit
  11   check: inconclusive
  12   check: the same training, and slower
  130  interrupted (143: by SIGTERM, 129: by SIGHUP); what was measured is kept, and the same `hotlap tune` goes on
  141  nobody reads the output any more, as behind `| head`
`hotlap measure --full` leaves with the training's own exit code.
"""

# As a shell says of a program that ended by SIGPIPE, which is how others end there.
_NO_READER = 128 + getattr(signal, "SIGPIPE", 13)

# Commands that have no file of their own name.
_FILES = {"show": "studies", "list": "studies", "clean": "studies", "read": "studies", "explain": "levers"}

_FULL_OR_BROKEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def build_parser() -> argparse.ArgumentParser:
    """The command line, whole; the files that do what it says are not imported yet."""
    parser = argparse.ArgumentParser(
        prog="hotlap",
        usage="hotlap COMMAND [options]",
        description="Makes PyTorch training faster, and proves that the gain is real and training unharmed.",
        epilog=f"{_listed()}\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hotlap {hotlap.__version__}")
    subparsers = parser.add_subparsers(
        prog="hotlap", metavar="COMMAND", dest="command", required=True, help=argparse.SUPPRESS
    )
    for add_options in chain.from_iterable(COMMANDS.values()):
        command(subparsers, add_options)
    parser.set_defaults(configured=frozenset())
    return parser


def _listed() -> str:
    lines = []
    for title, known in COMMANDS.items():
        summaries = ((one.__name__.removeprefix("_"), (one.__doc__ or "").partition("\n")[0]) for one in known)
        lines += [f"{title}:", *(f"  {name:10} {summary}" for name, summary in summaries), ""]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run hotlap; returns the exit code."""
    streams.prepare()
    try:
        try:
            return _main(list(sys.argv[1:] if argv is None else argv))
        finally:
            # Here, and not on Python's way out, where nobody could catch what comes of it.
            sys.stdout.flush()
    except BrokenPipeError:
        return _NO_READER
    except OSError as error:
        return _tell_of_surroundings(error)
    finally:
        streams.settle()


def _main(words: list[str]) -> int:
    parser = build_parser()
    if not words:
        parser.print_help()
        return 2
    try:
        _check_folder()
        _check_command(words, parser)
        args = parsed(words, parser)
        check_outputs(args)
        _tell_of_unread(args, commands(parser)[args.command])
        file = import_module(f"hotlap.cli.{_FILES.get(args.command, args.command)}")
        return int(file.run(args))
    except HotlapError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        return 128 + next(iter(interrupt.args), signal.SIGINT)


def parsed(words: Sequence[str], parser: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """A whole command line, with what pyproject.toml says, as its command takes it. `parser`: None makes one.

    Raises:
        UserError: pyproject.toml cannot be used. SystemExit: the words cannot; why was printed.
    """
    parser = parser or build_parser()
    configuration.apply(parser, Path.cwd())
    head, tail = split_command(words, parser)
    own = commands(parser).get(head[0], parser)
    args, unknown = parser.parse_known_args(with_values(head, own))
    if unknown:
        meant = nearest(unknown[0].partition("=")[0], own._option_string_actions)
        own.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
    args.tail = tail
    return args


def _check_command(words: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """A script in a command's place is what somebody types who has not read the help; or an option is in front."""
    word, known = words[0], commands(parser)
    if word in known or word in parser._option_string_actions:
        return
    if word.startswith("-"):
        behind = next((one for one in words if one in known), None)
        if behind is not None:
            raise UserError(f"Options stand behind the command: hotlap {behind} {word}.")
        parser.error(f"unrecognized arguments: {word}{nearest(word, parser._option_string_actions)}")
    if word.endswith(".py") or Path(word).is_file():
        raise UserError(
            f"Which command? `hotlap tune {word}` makes it faster; `hotlap measure {word}` says where its time goes."
        )
    raise UserError(f"There is no command {word}{nearest(word, known) or '.'} `hotlap --help` lists them all.")


def _check_folder() -> None:
    """Every command looks for something, or starts something, in the folder that it was started in."""
    try:
        os.getcwd()
    except OSError:
        raise UserError("The folder that you are in was deleted or moved. Change into another one.") from None


def _tell_of_surroundings(error: OSError) -> int:
    """A full disk, or one that failed, may be met by every line that writes: no fault of those."""
    if error.errno in _FULL_OR_BROKEN:
        what = error.filename or "Output, or a temporary file,"
        message = f"{what} cannot be written: {error.strerror}. Free some room there; TMPDIR names another folder."
    elif "temporary directory" in str(error.strerror):  # the words of `tempfile`
        message = f"{error.strerror}. Set TMPDIR to a folder that can be written."
    else:
        raise error
    with contextlib.suppress(OSError):
        print(f"hotlap: {message}", file=sys.stderr)
    return UserError.exit_code


def _tell_of_unread(args: argparse.Namespace, command: argparse.ArgumentParser) -> None:
    """A script that names no such option may take any, and do nothing with it."""
    script = args.after if args.command == "check" else next(iter(args.tail), "")
    options = (word.partition("=")[0] for word in args.tail if word.startswith("--"))
    ours = [one for one in options if one in command._option_string_actions]
    if not ours or not script.endswith(".py"):
        return
    with contextlib.suppress(OSError, UnicodeDecodeError, SyntaxError):
        text = source(Path(script))
        for option in [one for one in ours if one.lstrip("-").replace("-", "_") not in text][:1]:
            print(
                f"hotlap: note: {option} stands behind {script}, which does not name it; options of hotlap stand in "
                "front of the script.",
                file=sys.stderr,
            )


def _tell(error: HotlapError) -> None:
    """The script's own output as it is, then a sentence of ours."""
    if error.output:
        print(error.output.rstrip(), file=sys.stderr)
        print(file=sys.stderr)
    print(f"hotlap: {error}", file=sys.stderr)
