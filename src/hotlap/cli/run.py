"""`hotlap run`: the training itself, for real, under the levers that its last study accepted; no file is changed."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.cli import words
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.cli.target import Target
    from hotlap.record import Study


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = words.command(
        subparsers,
        "run",
        summary="run a training for real, under the levers of its last study",
        description="Runs the training under the levers that its last `hotlap tune` accepted. No file is changed, and "
        "nothing is measured: exit code, streams and signals are the training's own. Refuses where the script, its "
        "arguments, versions or the machine are not what was studied, and says what differs.",
        examples=("hotlap run train.py --lr 0.1",),
        training=True,
    )
    parser.add_argument("--study", metavar="STUDY", help="folder of the study, or its JSON file (default: the newest)")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="most that caches, batches made ahead and workers may take, as in 8GB (default: as in the study)",
    )
    parser.add_argument("--allow-different", action="store_true", help="run what differs all the same")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Become the training; this returns only in tests that keep a process from becoming another."""
    from hotlap.cli import shelf, target, words
    from hotlap.cli.workbench import levers_environment, memory_environment
    from hotlap.experiment import EditedScript
    from hotlap.launch import become
    from hotlap.record import Plan
    from hotlap.search import facts

    cwd = Path(os.getcwd())
    memory_bytes = words.memory(args.memory, os.environ)
    aim = target.parse(args.tail, cwd=cwd, command="run")
    path, study = shelf.named(args.study) if args.study else _newest(cwd, args.tail, aim)
    levers = study.result.levers if study.result is not None else ()
    if not levers:
        raise UserError(f"The study in {path.parent} accepted no lever: run {aim.title} without hotlap.")
    if not args.allow_different:
        _refuse_what_differs(study, args.tail, aim)
    plan = Plan(command=aim.command, cwd=str(cwd), out=str(_home(path)), seed=None, only_levers=True)
    plan = EditedScript(lambda: facts(study), cwd=study.cwd).plan(plan, levers)
    if memory_bytes is None and study.machine is not None:
        memory_bytes = study.machine.memory_limit_bytes
    become(plan, environment=levers_environment(plan) | memory_environment(memory_bytes))


def _home(path: Path) -> Path:
    """Where the plan is kept for the processes that the training starts."""
    path = path.resolve()
    return path.parent / "run" if path.name == "study.json" else path.with_name(f"{path.name}.run")


def _newest(cwd: Path, tail: list[str], aim: "Target") -> "tuple[Path, Study]":
    """The newest complete study of this very command; without one, the newest of the same script."""
    from hotlap.cli import shelf
    from hotlap.record import Purpose, State

    others = None
    for path, study in shelf.known(cwd):
        if study.purpose is not Purpose.TUNE or study.state is not State.COMPLETE:
            continue
        if study.command == shelf.recorded(tail):
            return path, study
        if others is None and _same_script(study.command, shelf.recorded(tail)):
            others = path, study
    if others is None:
        raise UserError(
            f"There is no complete study of {aim.title} {shelf.shown(cwd)}. Run `hotlap tune` with the same words "
            "first."
        )
    return others


def _same_script(command: tuple[str, ...], tail: tuple[str, ...]) -> bool:
    """`train.py --lr 1` and `train.py --lr 2`, or `-m train` with other arguments."""
    length = 2 if tail[0] in ("-m", "--") else 1
    return command[:length] == tail[:length]


def _refuse_what_differs(study: "Study", tail: list[str], aim: "Target") -> None:
    """Raises UserError: names everything that is not as it was studied."""
    from hotlap import machine
    from hotlap.cli import shelf
    from hotlap.tune.changed import changed

    differs = changed(study, command=shelf.recorded(tail), machine=machine.look(), title=aim.title)
    if differs:
        raise UserError(
            f"{aim.title} is not what was studied on {study.created[:10]}: {'; '.join(differs)}. The levers may do "
            "harm, or nothing, here: run `hotlap tune` again, or say --allow-different."
        )
