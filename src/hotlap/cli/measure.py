"""`hotlap measure`: what does each step of a training wait for, and what could be gained at best?"""

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.cli import words
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.cli.target import Target
    from hotlap.cli.workbench import Render, Workbench
    from hotlap.tune import Options, Scope

_USAGE = "hotlap measure [options] (SCRIPT [ARGS...] | -m MODULE [ARGS...] | -- COMMAND...)"

# A study without trials ends by itself; this only bounds what a script with slow steps may take (a quarter for the
# first run).
_BUDGET_S = 600.0

_NOT_WITH_FULL = ("steps", "warmup", "timeout", "seed", "quick", "no_sweep")
_ONLY_WITH_FULL = ("status_every", "quiet", "no_windows")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = subparsers.add_parser(
        "measure",
        usage=_USAGE,
        allow_abbrev=False,
        help="find what each training step waits for",
        description="Runs the script for some hundred steps and tells what each of them waits for, where in the "
        "source, and what could be gained at best. The script is not changed, and what it writes is thrown away. With "
        "--full the training is run to its end, for real, and only watched.",
        epilog="What stands behind SCRIPT, MODULE or -- goes to the training as it is.",
    )
    parser.add_argument("--steps", metavar="N", help="steps to record (default: 200)")
    parser.add_argument("--warmup", metavar="N", help="steps that are made and thrown away first (default: 20)")
    parser.add_argument("--timeout", metavar="TIME", help=words.TIMEOUT_HELP)
    parser.add_argument("--seed", metavar="N", help="seed for scripts that set none (default: 0)")
    parser.add_argument("--quick", action="store_true", help="run the script once only")
    parser.add_argument("--no-sweep", action="store_true", help="do not try the step with other numbers of threads")
    parser.add_argument("--full", action="store_true", help="run the training to its end, for real, and watch it")
    parser.add_argument(
        "--status-every", metavar="TIME", help="with --full: a line on standard error; SIGUSR1 asks for one at any time"
    )
    parser.add_argument(
        "--no-windows", action="store_true", help="with --full: look at no step closely (no profiler, no sampling)"
    )
    parser.add_argument("--quiet", action="store_true", help="with --full: say nothing on the terminal")
    parser.add_argument("--json", metavar="PATH", help="write the study there as well; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write the report page there as well")
    parser.add_argument("--markdown", metavar="PATH", help="write a report for a pull request there")
    parser.add_argument("--trace", metavar="PATH", help="write the steps there as a trace for Perfetto")
    parser.set_defaults(run=run, own_words=0)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.cli import target

    cwd = Path(os.getcwd())
    aim = target.parse(args.tail, cwd=cwd, command="measure")
    _check_together(args)
    if args.full:
        from hotlap.cli import full

        return full.run(args, aim, _bench(args, aim, cwd))
    return _measure(args, aim, cwd)


def _check_together(args: argparse.Namespace) -> None:
    """Refuse options that would do nothing.

    Raises:
        UserError: names them.
    """
    odd = _NOT_WITH_FULL if args.full else _ONLY_WITH_FULL
    for name in odd:
        if getattr(args, name) not in (None, False):
            word = f"--{name.replace('_', '-')}"
            why = "does not go with --full, which runs the training as it is" if args.full else "goes with --full only"
            raise UserError(f"{word} {why}.")
    if args.full and args.json == "-":
        raise UserError("--json - does not go with --full: standard output is the training's. Give the name of a file.")


def _measure(args: argparse.Namespace, aim: "Target", cwd: Path) -> int:
    from hotlap import machine
    from hotlap.record import State
    from hotlap.tune import Measurer

    options, scope = _wishes(args, aim, cwd)
    bench = _bench(args, aim, cwd)
    bench.interrupt.listen()
    code = 0
    with bench.showing(budget_s=None):
        try:
            with bench.launching(aim, timeout_s=options.timeout_s) as launcher:
                bench.study = Measurer(launcher, options, machine.look(), bench, scope=scope).run(bench.study)
        except KeyboardInterrupt:
            bench.study = replace(bench.study, state=State.INTERRUPTED)
            code = 130
    bench.finish()
    return code


def _wishes(args: argparse.Namespace, aim: "Target", cwd: Path) -> "tuple[Options, Scope]":
    """What is measured, and how."""
    from hotlap.tune import WATCHES, Options, Scope, Wanted

    options = Options(
        command=aim.command,
        cwd=str(cwd),
        title=aim.title,
        budget_s=_BUDGET_S,
        timeout_s=words.seconds(args.timeout or "120s", "--timeout"),
        seed=words.whole_number(args.seed or "0", "--seed"),
        more_time="raise --timeout",
    )
    wanted = Wanted(
        steps=words.whole_number(args.steps or "200", "--steps", least=8),
        warmup=words.whole_number(args.warmup or "20", "--warmup"),
        watches=WATCHES,
        epoch_end=True,
    )
    return options, Scope(wanted=wanted, repeat=not args.quick, sweep=not (args.quick or args.no_sweep))


def _bench(args: argparse.Namespace, aim: "Target", cwd: Path) -> "Workbench":
    """Where the study is kept and shown."""
    import sys

    import hotlap
    from hotlap.cli import shelf, workbench
    from hotlap.record import Purpose, Study, escaped

    workbench.check_writable((args.json, args.html, args.markdown, args.trace))
    created = shelf.now()
    study = Study(
        command=shelf.recorded(args.tail),
        cwd=escaped(str(cwd)),
        created=created.isoformat(timespec="seconds"),
        key=shelf.study_key(aim.command, cwd, aim.script, f"measure {created.isoformat()}"),
        hotlap=hotlap.__version__,
        purpose=Purpose.MEASURE,
        budget_s=_BUDGET_S,
    )
    return workbench.Workbench(
        study,
        shelf.Shelf(cwd, aim.title, created),
        json_path=args.json,
        pages=_pages(args),
        stream=sys.stderr if args.full else None,
    )


def _pages(args: argparse.Namespace) -> "Mapping[Path, Render]":
    from hotlap.report import html, markdown, trace

    renders: dict[str, Render] = {"html": html.render, "markdown": markdown.render, "trace": trace.render}
    return {Path(path): render for name, render in renders.items() if (path := getattr(args, name)) is not None}
