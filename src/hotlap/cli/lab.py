"""`hotlap lab`: the founding experiments, on this machine."""

import argparse

from hotlap import lab
from hotlap.cli import workbench
from hotlap.errors import UserError
from hotlap.lab.result import sections
from hotlap.predict import resolve

# Options of single experiments, as Settings names them.
_OWN = ("gpu", "budget", "html")


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if args.name is None:
        _list()
        return 0
    settings = _settings(args)
    result = lab.run(args.name, settings, workbench.say_doing)
    if result.study is not None:
        workbench.write_pages(args, result.study)
    workbench.show_result(args, result, sections(result))
    return 0


def _list() -> None:
    for name in lab.EXPERIMENTS:
        print(f"{name:14} {lab.asks(name)}")
    print("\nhotlap lab NAME runs one; --quick takes less than a minute, --json PATH writes the figures.")


def _settings(args: argparse.Namespace) -> lab.Settings:
    """What the user wishes.

    Raises:
        UserError: an option does nothing here, or its value makes no sense.
    """
    takes = lab.file_of(args.name).TAKES
    for name in _OWN:
        if getattr(args, name) is not None and name not in takes:
            raise UserError(f"--{name} does nothing in `hotlap lab {args.name}`; leave it out.")
    if args.tail and "script" not in takes:
        raise UserError(f"`hotlap lab {args.name}` takes no script, so what is {args.tail[0]!r}?")
    # Names are checked before anything runs.
    for name in args.gpu or ():
        resolve(name)
    return lab.Settings(
        quick=args.quick,
        gpu=args.gpu or (),
        budget_s=args.budget,
        words=tuple(args.tail),
    )
