"""A study while it is made: kept on disk as it grows, shown section by section, its runs started and interrupted."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hotlap.data.item_cache.memory import VARIABLE
from hotlap.errors import UserError

if TYPE_CHECKING:
    from hotlap.cli.live import Live
    from hotlap.cli.shelf import Shelf
    from hotlap.cli.target import Target
    from hotlap.launch import Backend, Launcher, Placed
    from hotlap.record import Plan, Study

Render = Callable[["Study"], str]


class Interrupt:
    """Ctrl-C, or a polite request to end: remembered, and raised."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """From now on."""
        signal.signal(signal.SIGTERM, self)
        signal.signal(signal.SIGINT, self)

    def __call__(self, *_: object) -> None:
        """The signal has come."""
        self.asked = True
        raise KeyboardInterrupt


class Workbench:
    """Observes a study: saves it at each change, writes it where the user asked, shows what is new.

    Args:
        args: of the command: what is shown (`words.add_display`), and the outputs (`words.add_outputs`).
        stream: where sections are shown; None: standard output, or standard error where the study itself goes there.

    Raises:
        UserError: there is no place to keep the study.
    """

    def __init__(
        self,
        study: "Study",
        shelf: "Shelf",
        args: argparse.Namespace,
        *,
        stream: TextIO | None = None,
    ) -> None:
        self.study = study
        self._shelf = shelf
        self._json_path: str | None = args.json
        self._pages = _pages(args)
        self._quiet: bool = args.quiet
        self._verbose: bool = args.verbose
        self._color: str = args.color
        self._stream: TextIO = stream or _stream(args)
        self.live: Live | None = None
        self.interrupt = Interrupt()
        shelf.check()

    @property
    def cwd(self) -> Path:
        """Where hotlap was started."""
        return self._shelf.cwd

    @contextmanager
    def showing(self, *, budget_s: float | None) -> Iterator["Live"]:
        """Sections are shown as they come, until the context ends."""
        from hotlap.cli.live import Live

        with Live(
            self._stream,
            quiet=self._quiet,
            verbose=self._verbose,
            color=self._color,
            budget_s=budget_s,
            spent_s=self.study.elapsed_s,
        ) as live:
            self.live = live
            yield live

    # The observer of the study

    def doing(self, text: str) -> None:
        """What is being done now."""
        if self.live is not None:
            self.live.doing(text)

    def changed(self, study: "Study", part: str) -> None:
        """Save, write where the user asked, show what is new."""
        self.study = study
        # What cannot be saved now may be at the end, and is shown in any case.
        with suppress(UserError):
            self.save()
        self.show(part)

    def show(self, part: str, study: "Study | None" = None) -> None:
        """What of the report is new when `part` is known."""
        from hotlap.report import terminal

        if self.live is not None:
            self.live.allow((study or self.study).budget_s)
            for section in terminal.part(study or self.study, part, verbose=self._verbose):
                self.live.show(section)

    def show_all(self) -> None:
        """The whole report at once."""
        from hotlap.report import terminal

        with self.showing(budget_s=None) as live:
            for section in terminal.sections(self.study):
                live.show(section)

    # Files

    def save(self) -> None:
        """The study as it is, on its shelf and where the user wants it."""
        from hotlap.record import save

        try:
            self._shelf.save(self.study)
        finally:
            if self._json_path not in (None, "-"):
                write(Path(self._json_path or ""), lambda path: save(self.study, path))

    def tell(self, text: str) -> None:
        """One line, behind all that was shown."""
        if not self._quiet:
            print(text, file=self._stream)

    def finish(self) -> None:
        """The last save, the pages, and the line that says where they are.

        Raises:
            UserError: something could not be written; all else was.
        """
        from hotlap.record import encode

        refused: list[UserError] = []
        if self.study.baseline:
            actions: list[Callable[[], None]] = [self.save, self._keep_report, *map(self._page, self._pages)]
            for action in actions:
                try:
                    action()
                except UserError as error:
                    refused.append(error)
        if self._json_path == "-":
            sys.stdout.write(encode(self.study).decode() + "\n")
        if refused:
            raise refused[0]

    def _keep_report(self) -> None:
        from hotlap.report import html

        self.tell(f"Report: {self._shelf.write('report.html', html.render(self.study))}")

    def _page(self, target: Path) -> Callable[[], None]:
        return lambda: write_text(target, self._pages[target](self.study))

    # Runs

    @contextmanager
    def launching(self, aim: "Target", *, timeout_s: float, memory_bytes: int | None = None) -> Iterator["Launcher"]:
        """Starts runs that change nothing of the user's; what could not be protected is told in a warning."""
        with launching(
            aim, self.cwd, timeout_s=timeout_s, memory_bytes=memory_bytes, interrupted=lambda: self.interrupt.asked
        ) as launcher:
            yield launcher
            self._warn(launcher.not_enclosed, _not_enclosed)
            self._warn(launcher.why_afresh, _afresh)

    @contextmanager
    def placing(
        self, aim: "Target", backend: "Backend", *, nodes: int, timeout_s: float, memory_bytes: int | None
    ) -> Iterator["Placed"]:
        """The same on nodes of a cluster."""
        from hotlap.launch import Order, Placed

        with Placed(
            backend,
            self._shelf.folder / "jobs",
            nodes=nodes,
            order=Order(folders=tuple(map(str, aim.folders(self.cwd))), timeout_s=timeout_s, memory_bytes=memory_bytes),
            interrupted=lambda: self.interrupt.asked,
        ) as placed:
            yield placed
            self._warn(placed.not_enclosed, _not_enclosed)

    def _warn(self, why: str | None, sentence: Callable[[str], str]) -> None:
        if why:
            self.study = replace(self.study, warnings=(*self.study.warnings, sentence(why)))


def launching(
    aim: "Target",
    cwd: Path,
    *,
    timeout_s: float,
    memory_bytes: int | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> "Launcher":
    """Starts runs of the training that change nothing of the user's.

    Arguments:
        cwd: where they are started.
        timeout_s: a run that makes no step for so long is given up.
        memory_bytes: what caches, batches made ahead and workers may take; None: the usual part of what is free.
        interrupted: asked while runs go on; True ends them.
    """
    from hotlap.launch import Launcher

    return Launcher(
        environment=lambda plan: levers_environment(plan) | memory_environment(memory_bytes),
        folders=aim.folders(cwd),
        timeout_s=timeout_s,
        interrupted=interrupted,
        templates=True,
    )


def levers_environment(plan: "Plan") -> dict[str, str]:
    """What the levers that hold from the start of the process want in it."""
    from hotlap import levers

    stack = (*plan.always, *(plan.arms[0] if len(plan.arms) == 1 else ()))
    return levers.environment_of(stack, os.environ)


def memory_environment(memory_bytes: int | None) -> dict[str, str]:
    """What tells the functions of `hotlap.data` how much they may take, in a patched script too."""
    return {} if memory_bytes is None else {VARIABLE: str(memory_bytes)}


def _not_enclosed(why: str) -> str:
    return (
        f"The script's folder could not be covered by a scratch layer on this system ({why}): files that the script "
        "wrote in its trials were written for real."
    )


def _afresh(why: str) -> str:
    return (
        f"Each trial made the script's imports anew, which takes part of the budget: they could not be made once for "
        f"all ({why})."
    )


def write(path: Path, action: Callable[[Path], Any]) -> None:
    """Write a file that the user named.

    Raises:
        UserError: it cannot be written.
    """
    try:
        action(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None


def write_text(path: Path, text: str) -> None:
    """The same, for text; bytes that the system could not read as such, in a name, come out as escapes."""
    write(path, lambda path: path.write_bytes(text.encode("utf-8", "backslashreplace")))


def _pages(args: argparse.Namespace) -> Mapping[Path, Render]:
    """Path given by the user -> what renders the study for it."""
    from hotlap.report import html, markdown

    renders: dict[str, Render] = {"html": html.render, "markdown": markdown.render}
    named = ((getattr(args, name, None), render) for name, render in renders.items())
    return {Path(path): render for path, render in named if path is not None}


def _stream(args: argparse.Namespace) -> TextIO:
    return sys.stderr if args.json == "-" else sys.stdout


def hand_out(args: argparse.Namespace, study: "Study") -> None:
    """A study that is made: shown, and written where the user wants it."""
    from hotlap.cli import console
    from hotlap.record import encode, save
    from hotlap.report import terminal

    if args.json != "-":
        console.show(sys.stdout, terminal.sections(study), color=args.color)
    for target, render in _pages(args).items():
        write_text(target, render(study))
        print(f"{target} was written.", file=sys.stderr)
    if args.json == "-":
        print(encode(study).decode())
    elif args.json is not None:
        write(Path(args.json), lambda path: save(study, path))


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse before anything runs what could not be written at the end."""
    check_writable([getattr(args, name, None) for name in ("json", "html", "markdown", "gpu_timeline", "perfetto")])


def check_writable(paths: Sequence[str | None]) -> None:
    """Refuse before anything runs what could not be written at the end."""
    for name in paths:
        if name in (None, "-"):
            continue
        path = Path(name or "")
        if path.is_dir():
            raise UserError(f"{name} is a folder. Give the name of a file.")
        if not path.absolute().parent.is_dir():
            raise UserError(f"{name} cannot be written: there is no folder {path.parent}.")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UserError(f"{name} cannot be written: it is in a place that is read-only for you.")
