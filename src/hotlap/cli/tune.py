"""`hotlap tune`: find where the time of a step goes, try what makes it faster, prove it, hand over a patch."""

import argparse
import os
from collections.abc import Callable
from dataclasses import replace

from hotlap import levers, machine
from hotlap.cli import storage, target, words
from hotlap.cli.workbench import Workbench
from hotlap.errors import UserError
from hotlap.launch import Backend, Ray, Slurm
from hotlap.record import Purpose, State, Study, escaped
from hotlap.tune import Options, StudyLog, tuned

# Where nothing is said. Steps of a fifth of a second leave five minutes too few comparisons; ten are what people wait.
_BUDGET_S, _LONG_BUDGET_S = 300.0, 540.0


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    studied(args)
    return 0


def studied(args: argparse.Namespace) -> Study:
    """The study, made, shown and kept."""
    options = _options(args)
    backend = _placed(args)
    bench = _bench(args, options)
    resumed = None if args.fresh else bench.storage.resume(bench.study.key)
    if resumed is not None:
        bench.study = replace(resumed, hotlap=bench.study.hotlap, state=State.RUNNING, budget_s=options.budget_s)
    with bench.making():
        if resumed is not None:
            bench.doing(f"going on with the study in {bench.storage.folder.name}")
            for part in ("baseline", "findings", "ceilings", "noise"):
                bench.show(part)
            for one in resumed.trials:
                bench.show("trial", replace(resumed, trials=(one,)))
        _tune(bench, options, backend, nodes=args.nodes)
    return bench.study


def _bench(args: argparse.Namespace, options: Options) -> Workbench:
    return Workbench(
        args,
        target.parse(args.tail),
        purpose=Purpose.TUNE,
        budget_s=options.budget_s,
        settings=f"{options.levers} {options.allow} {options.seed} {options.total_steps} {options.memory_bytes} "
        f"{args.on}",  # times of two machines are no one study
    )


def _tune(bench: Workbench, options: Options, backend: Backend | None, *, nodes: int) -> None:
    timeout_s, memory_bytes = options.timeout_s, options.memory_bytes
    if backend is None:
        seen = replace(machine.look(), memory_limit_bytes=memory_bytes)
        with bench.launching(timeout_s=timeout_s, memory_bytes=memory_bytes) as launcher:
            bench.study = tuned(StudyLog(bench.study, options, seen, launcher, bench))
        return
    with bench.placing(backend, nodes=nodes, timeout_s=timeout_s, memory_bytes=memory_bytes) as placed:
        bench.doing(f"waiting for a node of {backend.name}")
        seen = replace(placed.machine(), memory_limit_bytes=memory_bytes)
        bench.study = tuned(StudyLog(bench.study, options, seen, placed, bench, now=placed.now))


def _options(args: argparse.Namespace) -> Options:
    aim = target.parse(args.tail)
    for name in args.allow or ():
        if levers.by_name(name) not in levers.RECIPES:
            raise UserError(f"{name} leaves the training as it is and needs no --allow.")
    # Else as `hotlap measure --full` of the same words saw it.
    total_steps = args.total_steps or storage.length(aim.cwd, tuple(escaped(args.tail)))
    return Options(
        command=aim.command,
        cwd=str(aim.cwd),
        title=aim.title,
        budget_s=args.budget or _BUDGET_S,
        long_budget_s=_LONG_BUDGET_S if args.budget is None else None,
        timeout_s=args.timeout,
        levers=_names(args),
        allow=args.allow or (),
        seed=args.seed,
        total_steps=total_steps,
        memory_bytes=words.memory(args.memory, os.environ),
    )


def _names(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Levers to try; None: all.

    Raises:
        UserError: one is unknown, or changes the training.
    """
    for name in args.levers or ():
        if levers.by_name(name) in levers.RECIPES:
            raise UserError(f"{name} changes the training itself, so it is tried with --allow {name} only.")
    if args.skip is None:
        return args.levers  # type: ignore[no-any-return] # of argparse
    skipped = {levers.by_name(name).name for name in args.skip}
    left = tuple(name for name in args.levers or (kind.name for kind in levers.ALL) if name not in skipped)
    if not left:
        raise UserError(f"--skip {','.join(args.skip)} leaves no lever to try.")
    return left


def _placed(args: argparse.Namespace) -> Backend | None:
    """The scheduler that `--on` names; None for this machine.

    Raises:
        UserError: there is no such scheduler, or nodes without one.
    """
    if args.on is None:
        if args.nodes > 1:
            raise UserError("--nodes goes with --on: it says how many nodes of a cluster are used at the same time.")
        return None
    name, _, where = args.on.partition(":")
    kinds: dict[str, Callable[[str | None], Backend]] = {"slurm": Slurm, "ray": Ray}
    if name not in kinds:
        raise UserError(f"--on {args.on} is not known. There are: --on slurm[:PARTITION], and --on ray[:ADDRESS].")
    return kinds[name](where or None)
