"""`hotlap measure`: where does the time of a training step go, and what could be gained at best?"""

import argparse
from dataclasses import replace

from hotlap import machine
from hotlap.cli import full, target
from hotlap.cli.workbench import Workbench
from hotlap.errors import NoSteps, ScriptFailed, UserError
from hotlap.record import Purpose, Study
from hotlap.tune import WATCHES, Options, StudyLog, measured

# A study without trials ends by itself; this only bounds what a script with slow steps may take (a quarter for the
# first run).
_BUDGET_S = 600.0

_NOT_WITH_FULL = ("steps", "warmup", "quick")


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if not args.full:
        if args.no_windows and "no_windows" not in args.configured:
            raise UserError("--no-windows is for --full: without it, a few steps are looked at closely in any case.")
        studied(args)
        return 0
    _check_full(args)
    return full.run(args, _bench(args))


def studied(args: argparse.Namespace) -> Study:
    """The study, made, shown and kept."""
    bench = _bench(args)
    options = Options(
        command=bench.aim.command,
        cwd=str(bench.cwd),
        title=bench.aim.title,
        budget_s=_BUDGET_S,
        timeout_s=args.timeout,
        seed=args.seed,
        has_budget=False,
    )
    plan = replace(
        options.plan,
        steps=200 if args.steps is None else args.steps,
        warmup=20 if args.warmup is None else args.warmup,
        watches=WATCHES,
        whole_epoch=True,
    )
    with bench.making():
        try:
            with bench.launching(timeout_s=options.timeout_s) as launcher:
                log = StudyLog(bench.study, options, machine.look(), launcher, bench)
                bench.study = measured(log, plan, repeat=not args.quick, sweep=not args.quick)
        except (ScriptFailed, NoSteps) as error:
            bench.finish()  # with what was measured until then
            if bench.study.baseline and not args.quiet:
                error.output = ""  # it is in the report
            raise
    return bench.study


def _bench(args: argparse.Namespace) -> Workbench:
    aim = target.parse(args.tail, command="measure")
    return Workbench(args, aim, purpose=Purpose.MEASURE, budget_s=_BUDGET_S, full=args.full)


def _check_full(args: argparse.Namespace) -> None:
    """Refuse options that would do nothing where the training runs as it is.

    Raises:
        UserError: names them.
    """
    for name in _NOT_WITH_FULL:
        if getattr(args, name) not in (None, False) and name not in args.configured:
            raise UserError(f"--{name} does not go with --full, which runs the training as it is.")
    if args.json == "-":
        raise UserError("--json - does not go with --full: standard output is the training's. Give the name of a file.")
