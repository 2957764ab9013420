"""`hotlap tune`: find what each step waits for, try what makes it faster, prove it, hand over a patch."""

import argparse
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.cli.live import Live
    from hotlap.cli.shelf import Shelf
    from hotlap.cli.target import Target
    from hotlap.launch import Launcher
    from hotlap.record import Study
    from hotlap.tune import Options

_USAGE = "hotlap tune [options] (SCRIPT [ARGS...] | -m MODULE [ARGS...] | -- COMMAND...)"

VALUE_OPTIONS = ("--budget", "--timeout", "--json", "--html", "--levers", "--seed")
"""Options of commands that run a training; each takes one value. Behind the script all words are the script's."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Tell the parser of `hotlap` about this command."""
    parser = subparsers.add_parser(
        "tune",
        usage=_USAGE,
        allow_abbrev=False,
        help="make a training script faster, and prove it",
        description="Finds what each training step waits for, tries what makes it faster, proves that the gain is real "
        "and training unharmed, and hands over a patch. The script is not changed; `hotlap apply` does that.",
        epilog="What stands behind SCRIPT, MODULE or -- goes to the training as it is.",
    )
    parser.add_argument("--budget", default="5m", metavar="TIME", help="time for the whole study (default: 5m)")
    parser.add_argument(
        "--timeout", default="120s", metavar="TIME", help="give up a run that makes no step for so long (default: 120s)"
    )
    parser.add_argument("--json", metavar="PATH", help="write the study there as well; - is standard output")
    parser.add_argument("--html", metavar="PATH", help="write the report page there as well")
    parser.add_argument("--levers", metavar="NAMES", help="try these only, separated by commas")
    parser.add_argument("--seed", default="0", metavar="N", help="seed for scripts that set none (default: 0)")
    parser.add_argument("--fresh", action="store_true", help="begin anew; do not go on with an interrupted study")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do it; the exit code."""
    from hotlap.cli import target

    # Where the user is, by the name that the shell gives it: a script may print it.
    cwd = Path(os.getcwd())
    options, aim = _options(args, target.parse(args.tail, cwd=cwd), cwd)
    interrupt = _Interrupt()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    return _Tuning(args, options, aim, cwd, interrupt).run()


class _Interrupt:
    """Ctrl-C, or a polite request to end: remembered, and raised."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, *_: object) -> None:
        self.asked = True
        raise KeyboardInterrupt


def _options(args: argparse.Namespace, aim: "Target", cwd: Path) -> "tuple[Options, Target]":
    from hotlap import levers
    from hotlap.tune import Options

    names = None
    if args.levers is not None:
        names = tuple(name.strip() for name in args.levers.split(",") if name.strip())
        for name in names:
            levers.by_name(name)
    if not re.fullmatch(r"\d{1,9}", args.seed):
        raise UserError(f"--seed {args.seed} is not a whole number from 0 to 999999999.")
    options = Options(
        command=aim.command,
        cwd=str(cwd),
        title=aim.title,
        budget_s=seconds(args.budget, "--budget"),
        timeout_s=seconds(args.timeout, "--timeout"),
        levers=names,
        seed=int(args.seed),
    )
    return options, aim


def seconds(text: str, option: str) -> float:
    """ "5m", "90s", "1.5h" or "300" -> seconds.

    Raises:
        UserError: it is none of these, or not above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h)?", text.strip())
    value = float(match[1]) * {"s": 1, None: 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if value <= 0:
        raise UserError(f"{option} {text} is not a time. Give one as in {option} 90s, {option} 5m or {option} 1h.")
    return value


class _Tuning:
    """One `hotlap tune`: saves and shows the study as it grows."""

    def __init__(
        self, args: argparse.Namespace, options: "Options", aim: "Target", cwd: Path, interrupt: _Interrupt
    ) -> None:
        from hotlap.cli import shelf
        from hotlap.record import Study

        self._args = args
        self._options = options
        self._interrupt = interrupt
        created = shelf.now()
        settings = f"{options.levers} {options.seed}"
        self._shelf: Shelf = shelf.Shelf(cwd, aim.title, created)
        self._study = Study(
            command=tuple(args.tail),
            cwd=str(cwd),
            created=created.isoformat(timespec="seconds"),
            key=shelf.study_key(aim.command, cwd, aim.script, settings),
            budget_s=options.budget_s,
        )
        self._folders = [cwd, *([aim.script.resolve().parent] if aim.script else [])]
        self._stdout: TextIO = sys.stderr if args.json == "-" else sys.stdout
        self._live: Live | None = None

    def run(self) -> int:
        import hotlap
        from hotlap.cli.live import Live
        from hotlap.record import State

        resumed = None if self._args.fresh else self._shelf.resume(self._study.key)
        self._study = replace(
            resumed or self._study, hotlap=hotlap.__version__, state=State.RUNNING, budget_s=self._options.budget_s
        )
        code = 0
        with Live(self._stdout, budget_s=self._options.budget_s, spent_s=self._study.elapsed_s) as live:
            self._live = live
            if resumed is not None:
                live.status(f"going on with the study in {self._shelf.folder.name}")
                self._show_known()
            try:
                self._tune()
            except KeyboardInterrupt:
                self._study = replace(self._study, state=State.INTERRUPTED)
                code = 130
        self._finish(code)
        return code

    def _tune(self) -> None:
        from hotlap import machine
        from hotlap.tune import Tuner

        with self._launcher() as launcher:
            tuner = Tuner(launcher, self._options, machine.look(), self)
            self._study = tuner.run(self._study)
            if launcher.not_enclosed:
                self._study = replace(
                    self._study,
                    warnings=(
                        *self._study.warnings,
                        "The script's folder could not be covered by a scratch layer on this system "
                        f"({launcher.not_enclosed}): files that the script wrote in its trials were written for real.",
                    ),
                )

    def _launcher(self) -> "Launcher":
        from hotlap import levers
        from hotlap.launch import Launcher
        from hotlap.record import Plan

        def environment(plan: Plan) -> dict[str, str]:
            """What the levers that hold from the start of the process want in it."""
            wanted: dict[str, str] = {}
            for spec in (*plan.always, *(plan.arms[0] if len(plan.arms) == 1 else ())):
                wanted |= levers.from_spec(spec).environment({**os.environ, **wanted})
            return wanted

        return Launcher(
            environment=environment,
            folders=self._folders,
            timeout_s=self._options.timeout_s,
            interrupted=lambda: self._interrupt.asked,
        )

    # The observer of the study

    def doing(self, text: str) -> None:
        """What is being done now."""
        if self._live is not None:
            self._live.status(text)

    def changed(self, study: "Study", part: str) -> None:
        """Save, write where the user asked, show what is new."""
        self._study = study
        self._save()
        if self._live is not None:
            for section in _sections(study, part):
                self._live.show(section)

    def _show_known(self) -> None:
        for part in ("baseline", "findings", "ceilings", "noise"):
            self._show(part)
        for one in self._study.trials:
            self._show("trial", replace(self._study, trials=(one,)))

    def _show(self, part: str, study: "Study | None" = None) -> None:
        assert self._live is not None
        for section in _sections(study or self._study, part):
            self._live.show(section)

    # Files

    def _save(self) -> None:
        from hotlap.record import save

        self._shelf.save(self._study)
        if self._args.json not in (None, "-"):
            _write(Path(self._args.json), lambda path: save(self._study, path))

    def _finish(self, code: int) -> None:
        """The last save, the page, and the line that says where they are."""
        from hotlap.record import encode
        from hotlap.report import html

        if self._study.baseline:
            self._save()
            page = html.render(self._study)
            path = self._shelf.write("report.html", page)
            if self._args.html:
                _write(Path(self._args.html), lambda target: target.write_text(page, encoding="utf-8"))
            print(f"Report: {path}", file=self._stdout)
        if code == 130:
            print("Interrupted. The same command goes on from here.", file=self._stdout)
        if self._args.json == "-":
            sys.stdout.write(encode(self._study).decode() + "\n")


def _write(path: Path, write: Any) -> None:
    try:
        write(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None


def _sections(study: "Study", part: str) -> list[Any]:
    """What of the report is new when `part` is known."""
    from hotlap.report import terminal

    if part == "trial":
        return [terminal.trial(study.trials[-1])]
    sections: dict[str, list[Any]] = {
        "baseline": [terminal.waiting],
        "findings": [terminal.findings],
        "ceilings": [terminal.ceilings],
        "noise": [terminal.noise],
        "end": [terminal.levers, terminal.verdict, terminal.speedup, terminal.patch, terminal.warnings],
    }
    return [section(study) for section in sections.get(part, [])]
