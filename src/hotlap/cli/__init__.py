"""One file a command; the only place that prints, exits, and catches our errors."""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

import hotlap
from hotlap.cli import apply, compare, data, lab, machine, measure, predict, run, tune
from hotlap.cli.words import split_command
from hotlap.errors import HotlapError, NoSteps, ScriptFailed

_EPILOG = """\
exit codes:
  0    done (also when nothing faster was found)
  1    an error of hotlap's own; please report it
  2    the command line, or a file that it names, cannot be used
  3    the training script failed; its own error is shown
  4    the script made no training step, or too few to measure
  5    compare: the second study is slower by more than --max-regression
  130  interrupted; what was known is saved (the same `hotlap tune` goes on from there)
`hotlap run` and `hotlap measure --full` leave with the training's own exit code.
"""


def build_parser() -> argparse.ArgumentParser:
    """The command line, whole."""
    parser = argparse.ArgumentParser(
        prog="hotlap",
        description="Makes PyTorch training faster, and proves that the gain is real and training unharmed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hotlap {hotlap.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (measure, tune, run, predict, machine, data, lab, apply, compare):
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run hotlap; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser()
    if not words:
        parser.print_help()
        return 2
    head, tail = split_command(words)
    args = parser.parse_args(head)
    args.tail = tail
    try:
        return int(args.run(args))
    except HotlapError as error:
        _tell(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has left (`hotlap ... | head`): nobody is there to be told.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _tell(error: HotlapError) -> None:
    """The script's own output as it is, then one sentence of ours."""
    if isinstance(error, ScriptFailed | NoSteps) and error.output:
        print(error.output.rstrip(), file=sys.stderr)
        print(file=sys.stderr)
    print(f"hotlap: {error}", file=sys.stderr)
