"""`hotlap measure`: where does the time of a training step go, and what could be gained at best?"""

import argparse
from contextlib import closing
from dataclasses import replace

from hotlap import machine
from hotlap.cli import full, target, words
from hotlap.cli.workbench import Workbench
from hotlap.errors import NoSteps, ScriptFailed, UserError
from hotlap.record import Purpose, State
from hotlap.tune import WATCHES, Options, StudyLog, measured

# A study without trials ends by itself; this only bounds what a script with slow steps may take (a quarter for the
# first run).
_BUDGET_S = 600.0

_NOT_WITH_FULL = ("steps", "warmup", "timeout", "seed", "quick")
_ONLY_WITH_FULL = ("no_windows",)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if not args.full:
        return studied(args)[1]
    _check_together(args)
    return full.run(args, _bench(args))


def studied(args: argparse.Namespace) -> tuple[Workbench, int]:
    """The study, made, shown and kept, and the exit code."""
    _check_together(args)
    bench = _bench(args)
    options = Options(
        command=bench.aim.command,
        cwd=str(bench.cwd),
        title=bench.aim.title,
        budget_s=_BUDGET_S,
        timeout_s=words.seconds(args.timeout or "120s", "--timeout"),
        seed=words.whole_number(args.seed or "0", "--seed"),
        has_budget=False,
    )
    plan = replace(
        options.plan,
        steps=words.whole_number(args.steps or "200", "--steps", least=8),
        warmup=words.whole_number(args.warmup or "20", "--warmup"),
        watches=WATCHES,
        whole_epoch=True,
    )
    code = 0
    with closing(bench.shelf):
        with bench.interrupt, bench.showing(budget_s=None):
            try:
                with bench.launching(timeout_s=options.timeout_s) as launcher:
                    log = StudyLog(bench.study, options, machine.look(), launcher, bench)
                    bench.study = measured(log, plan, repeat=not args.quick, sweep=not args.quick)
            except KeyboardInterrupt:
                bench.study = replace(bench.study, state=State.INTERRUPTED)
                code = 130
            except (ScriptFailed, NoSteps) as error:
                bench.finish()  # with what was measured until then
                if bench.study.baseline and not args.quiet:
                    error.output = ""  # it is in the report
                raise
        bench.finish()
    return bench, code


def _bench(args: argparse.Namespace) -> Workbench:
    aim = target.parse(args.tail, command="measure")
    return Workbench(args, aim, purpose=Purpose.MEASURE, budget_s=_BUDGET_S, full=args.full)


def _check_together(args: argparse.Namespace) -> None:
    """Refuse options that would do nothing.

    Raises:
        UserError: names them.
    """
    odd = _NOT_WITH_FULL if args.full else _ONLY_WITH_FULL
    for name in odd:
        if getattr(args, name) not in (None, False) and name not in args.configured:
            word = f"--{name.replace('_', '-')}"
            why = "does not go with --full, which runs the training as it is" if args.full else "goes with --full only"
            raise UserError(f"{word} {why}.")
    if args.full and args.json == "-":
        raise UserError("--json - does not go with --full: standard output is the training's. Give the name of a file.")
