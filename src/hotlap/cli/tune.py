"""`hotlap tune`: find where the time of a step goes, try what makes it faster, prove it, hand over a patch."""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.cli import words
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.cli.target import Target
    from hotlap.record import Study
    from hotlap.tune import Options

# Where nothing is said. Steps of a fifth of a second leave five minutes too few comparisons; ten are what people wait.
_BUDGET_S, _LONG_BUDGET_S = 300.0, 540.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = words.command(
        subparsers,
        "tune",
        summary="make a training script faster, and prove it",
        description="Finds where the time of a training step goes, tries what makes it faster, proves that the gain "
        "is real and training unharmed, and hands over a patch. The script is not changed; `hotlap apply` does that.",
        examples=(
            "hotlap tune train.py --lr 0.1",
            "hotlap tune --budget 15m --skip bf16-autocast -m package.train",
            "hotlap tune -- torchrun --nproc-per-node 1 train.py",
        ),
        training=True,
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        help="time for the whole study (default: 5m, or 9m where steps or starts are long, or the machine is noisy)",
    )
    parser.add_argument("--timeout", default="120s", metavar="TIME", help=words.TIMEOUT_HELP)
    parser.add_argument("--levers", metavar="NAMES", help="try these only, separated by commas (hotlap levers: all)")
    parser.add_argument("--skip", metavar="NAMES", help="try all but these, separated by commas")
    parser.add_argument(
        "--allow", metavar="NAMES", help="also try what changes the training itself; there is: batch-size"
    )
    parser.add_argument(
        "--total-steps",
        metavar="STEPS",
        help="steps that your training makes, for its total time (default: its own, where it ends or its loops say)",
    )
    parser.add_argument("--memory", metavar="SIZE", help=words.MEMORY_HELP)
    parser.add_argument(
        "--on",
        metavar="WHERE",
        help="run on nodes of a cluster, not here: slurm[:PARTITION] or ray[:ADDRESS]",
    )
    parser.add_argument(
        "-N", "--nodes", default="1", metavar="N", help="with --on: nodes at the same time (default: 1)"
    )
    parser.add_argument("--seed", default="0", metavar="N", help="seed for scripts that set none (default: 0)")
    parser.add_argument("--fresh", action="store_true", help="start over; do not go on with an interrupted study")
    words.add_display(parser)
    words.add_outputs(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.cli import target

    # Where the user is, by the name that the shell gives it: a script may print it.
    cwd = Path(os.getcwd())
    options, aim = _options(args, target.parse(args.tail, cwd=cwd), cwd)
    return _Tuning(args, options, aim, cwd).run()


def _options(args: argparse.Namespace, aim: "Target", cwd: Path) -> "tuple[Options, Target]":
    from hotlap import levers
    from hotlap.tune import Options

    names = _names(args)
    allowed = words.names(args.allow, "--allow") if args.allow is not None else ()
    for name in allowed:
        if levers.by_name(name) not in levers.RECIPES:
            raise UserError(f"{name} leaves the training as it is and needs no --allow.")
    options = Options(
        command=aim.command,
        cwd=str(cwd),
        title=aim.title,
        budget_s=_BUDGET_S if args.budget is None else words.seconds(args.budget, "--budget"),
        long_budget_s=_LONG_BUDGET_S if args.budget is None else None,
        timeout_s=words.seconds(args.timeout, "--timeout"),
        levers=names,
        allow=allowed,
        seed=words.whole_number(args.seed, "--seed"),
        total_steps=_total_steps(args, cwd),
        memory_bytes=words.memory(args.memory, os.environ),
    )
    return options, aim


def _names(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Levers to try; None: all.

    Raises:
        UserError: one is unknown, or changes the training.
    """
    from hotlap import levers

    wanted = words.names(args.levers, "--levers") if args.levers is not None else None
    for name in wanted or ():
        if levers.by_name(name) in levers.RECIPES:
            raise UserError(f"{name} changes the training itself, so it is tried with --allow {name} only.")
    if args.skip is None:
        return wanted
    skipped = {levers.by_name(name).name for name in words.names(args.skip, "--skip")}
    left = tuple(name for name in wanted or (kind.name for kind in levers.ALL) if name not in skipped)
    if not left:
        raise UserError(f"--skip {args.skip} leaves no lever to try.")
    return left


def _total_steps(args: argparse.Namespace, cwd: Path) -> int | None:
    """As given; else what a `hotlap measure --full` of the same words saw."""
    from hotlap.cli import shelf

    if args.total_steps is not None:
        return words.whole_number(args.total_steps, "--total-steps", least=1)
    return shelf.length(cwd, shelf.recorded(args.tail))


class _Tuning:
    """One `hotlap tune`."""

    def __init__(self, args: argparse.Namespace, options: "Options", aim: "Target", cwd: Path) -> None:
        from hotlap.cli import shelf, workbench
        from hotlap.record import Study, escaped

        self._args = args
        self._options = options
        self._aim = aim
        self._backend = words.backend(args.on) if args.on is not None else None
        self._nodes = words.whole_number(args.nodes, "--nodes", least=1)
        if self._backend is None and self._nodes > 1:
            raise UserError("--nodes goes with --on: it says how many nodes of a cluster are used at the same time.")
        created = shelf.now()
        study = Study(
            command=shelf.recorded(args.tail),
            cwd=escaped(str(cwd)),
            created=created.isoformat(timespec="seconds"),
            key=shelf.study_key(
                aim.command,
                cwd,
                aim.script,
                f"{options.levers} {options.allow} {options.seed} {options.total_steps} {options.memory_bytes} "
                f"{args.on}",  # times of two machines are no one study
            ),
            budget_s=options.budget_s,
        )
        self._shelf = shelf.Shelf(cwd, aim.title, created)
        workbench.check_outputs(args)
        self._bench = workbench.Workbench(study, self._shelf, args)

    def run(self) -> int:
        import hotlap
        from hotlap.record import State

        bench = self._bench
        bench.interrupt.listen()
        resumed = None if self._args.fresh else self._shelf.resume(bench.study.key)
        bench.study = replace(
            resumed or bench.study, hotlap=hotlap.__version__, state=State.RUNNING, budget_s=self._options.budget_s
        )
        code = 0
        with bench.showing(budget_s=self._options.budget_s) as live:
            if resumed is not None:
                live.doing(f"going on with the study in {self._shelf.folder.name}")
                self._show_known(bench.study)
            try:
                self._tune()
            except KeyboardInterrupt:
                bench.study = replace(bench.study, state=State.INTERRUPTED)
                code = 130
        bench.finish()
        if code == 130:
            bench.tell("Interrupted. The same command goes on from here.")
        return code

    def _tune(self) -> None:
        from hotlap import machine
        from hotlap.tune import StudyLog, tuned

        bench, options = self._bench, self._options
        timeout_s, memory_bytes = options.timeout_s, options.memory_bytes
        if self._backend is None:
            seen = replace(machine.look(), memory_limit_bytes=memory_bytes)
            with bench.launching(self._aim, timeout_s=timeout_s, memory_bytes=memory_bytes) as launcher:
                bench.study = tuned(StudyLog(bench.study, options, seen, launcher, bench))
            return
        placing = bench.placing(
            self._aim, self._backend, nodes=self._nodes, timeout_s=timeout_s, memory_bytes=memory_bytes
        )
        with placing as placed:
            bench.doing(f"waiting for a node of {self._backend.name}")
            seen = replace(placed.machine(), memory_limit_bytes=memory_bytes)
            bench.study = tuned(StudyLog(bench.study, options, seen, placed, bench, now=placed.now))

    def _show_known(self, study: "Study") -> None:
        for part in ("baseline", "findings", "ceilings", "noise"):
            self._bench.show(part)
        for one in study.trials:
            self._bench.show("trial", replace(study, trials=(one,)))
