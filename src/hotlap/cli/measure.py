"""`hotlap measure`: where does the time of a training step go, and what could be gained at best?

With `--full` the training runs as it is, to its end, and there is a report of all of it afterwards.
"""

import argparse
import contextlib
import sys
import time
import traceback
from dataclasses import replace

from hotlap import machine
from hotlap.cli import streams, target
from hotlap.cli.workbench import Workbench
from hotlap.errors import NoSteps, ScriptFailed, UserError
from hotlap.launch import WholeRun, end_like
from hotlap.record import Plan, Purpose, Run, State, Study
from hotlap.report import terminal
from hotlap.tune import FULL, PROFILERS, Options, StudyLog, measured
from hotlap.tune.diagnosis import ceilings, findings_of

# A study without trials ends by itself; this only bounds what a script with slow steps may take (a quarter for the
# first run).
_BUDGET_S = 600.0

_NOT_WITH_FULL = ("steps", "warmup", "quick")


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    if not args.full:
        studied(args)
        return 0
    _check_full(args)
    return _followed(args, _bench(args))


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
        profilers=PROFILERS,
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


def _followed(args: argparse.Namespace, bench: Workbench) -> int:
    """Run it; the exit code is the training's."""
    plan = Plan(
        command=bench.aim.command,
        cwd=str(bench.cwd),
        out="",
        seed=None,
        whole=True,
        profilers=FULL,
    )
    begun_s = time.monotonic()

    def noted(run: Run) -> Study:
        return replace(bench.study, baseline=(run,), elapsed_s=time.monotonic() - begun_s)

    def look() -> None:  # about once a second
        run = whole.partial()
        if run is not None and run.step_s:
            bench.study = noted(run)
            # The training goes on, whatever becomes of our files.
            with contextlib.suppress(UserError):
                bench.save()

    with WholeRun(plan) as whole:
        code = whole.run(looked=look)
        bench.study = noted(whole.outcome(code))
        _report(bench, quiet=args.quiet)
    return end_like(code)


def _report(bench: Workbench, *, quiet: bool) -> None:
    """What goes wrong here is told, and changes nothing of how the training ended."""
    (run,) = bench.study.baseline
    try:
        if not run.step_s:
            why = f": {run.error}" if run.error else ""
            raise UserError(f"no training step of {bench.aim.title} was seen{why}. There is nothing to report.")
        here = machine.look()
        findings, bounds = findings_of(run, here), ceilings(run)
        bench.study = replace(bench.study, machine=here, findings=findings, ceilings=bounds, state=State.COMPLETE)
        try:
            bench.live.show(*terminal.sections(bench.study))
        finally:  # also where the terminal was closed
            bench.finish()
    except UserError as error:
        if not quiet:
            _say(str(error))
    except OSError as error:
        # Of the terminal, or of the pipe in its place, most likely: nobody may be there to read it.
        _say(f"the report cannot be shown: {error.strerror}.")
    except Exception:
        # Our own fault: it is shown, but the exit code stays the training's.
        _say(f"{traceback.format_exc()}\nhotlap: this is an error of its own; please report it.")
    streams.settle()


def _say(text: str) -> None:
    # Nobody may read standard error any more; the training goes on, and its exit code stays.
    with contextlib.suppress(OSError):
        print(f"hotlap: {text}", file=sys.stderr, flush=True)
