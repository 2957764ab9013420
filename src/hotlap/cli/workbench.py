"""A study while it is made: kept on disk as it grows, shown section by section, its runs started and interrupted."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, Self

from rich.console import RenderableType
from rich.text import Text

import hotlap
from hotlap import levers
from hotlap.cli import console, streams
from hotlap.cli.live import Live
from hotlap.cli.storage import StudyFolder, now, study_key
from hotlap.cli.target import Target
from hotlap.data.item_cache.memory import VARIABLE
from hotlap.errors import UserError
from hotlap.launch import Backend, Launcher, Order, Placed
from hotlap.record import Plan, Purpose, State, Study, encode, escaped, save
from hotlap.report import html, markdown, terminal
from hotlap.report.clean import clean_line

_RENDERS: dict[str, Callable[[Study], str]] = {"html": html.render, "markdown": markdown.render}


class Interrupt:
    """Ctrl-C, a polite request to end, or a closed terminal, within the context: remembered, and raised.

    Raises:
        KeyboardInterrupt: with the number of the signal, where the context ends by one.
    """

    def __init__(self) -> None:
        self.asked: signal.Signals | None = None

    def __enter__(self) -> Self:
        # `nohup` has hotlap go on without its terminal.
        stays = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        numbers = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} - stays
        # Signals are the main thread's; in another one (of a web app, a widget) they stay the program's own.
        if current_thread() is not main_thread():
            numbers = set()
        self._before = {number: signal.signal(number, self) for number in numbers}
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self.asked is not None and kind is not None and issubclass(kind, KeyboardInterrupt):
            raise KeyboardInterrupt(self.asked)

    @property
    def told(self) -> str:
        """A sentence: "Interrupted by SIGTERM."."""
        return "Interrupted." if self.asked in (None, signal.SIGINT) else f"Interrupted by {self.asked.name}."

    def __call__(self, number: int, _: object) -> None:
        """The signal has come. `timeout` sends it twice, and the second must not disturb what ends; a user who presses
        Ctrl-C again does not want to wait for that."""
        again, self.asked = self.asked is not None, self.asked or signal.Signals(number)
        if number == signal.SIGHUP:
            streams.hung_up()
        if not again or number == signal.SIGINT:
            raise KeyboardInterrupt


class Workbench:
    """Observes a study: saves it at each change, writes it where the user asked, shows what is new.

    Args:
        args: of the command: the training, what is shown (`words.add_display`), and the outputs (`words.add_outputs`).
        settings: what beside the training tells this study from others, where one that was interrupted goes on.
        budget_s: time that the study may take; told of one that tries levers.
        full: the training itself runs, and has standard output.

    Raises:
        UserError: there is no place to keep the study.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        aim: Target,
        *,
        purpose: Purpose,
        budget_s: float,
        settings: str = "",
        full: bool = False,
    ) -> None:
        created = now()
        self.aim, self.cwd = aim, aim.cwd
        self.study = Study(
            command=tuple(escaped(args.tail)),
            cwd=escaped(str(self.cwd)),
            created=created.isoformat(timespec="seconds"),
            key=study_key(aim.command, self.cwd, aim.script, f"{purpose} {settings}"),
            hotlap=hotlap.__version__,
            purpose=purpose,
            budget_s=budget_s,
            asked=tuple(_asked(args)),
            stdin=escaped(stdin) if os.path.isfile(stdin := os.path.realpath("/dev/stdin")) else None,
        )
        self.storage = StudyFolder(self.cwd, aim.title, created)
        self._args = args
        self._stream = sys.stderr if full or args.json == "-" else sys.stdout
        self.live = Live(
            self._stream,
            quiet=args.quiet,
            verbose=args.verbose,
            color=args.color,
            budget_s=budget_s if purpose is Purpose.TUNE else None,
        )
        self.interrupt = Interrupt()
        self.storage.check()

    @contextmanager
    def making(self) -> Iterator[None]:
        """The study is made in this context, shown as it comes and kept at its end; one that is interrupted as well.

        Raises:
            KeyboardInterrupt: it was.
        """
        self.live.go_on(self.study.elapsed_s)
        with closing(self.storage), self.interrupt:
            with self.live:
                try:
                    yield
                except KeyboardInterrupt:
                    self.study = replace(self.study, state=State.INTERRUPTED)
            try:
                self.finish()
            except KeyboardInterrupt:  # whoever presses it again does not want to wait for the pages
                self.tell(self._interrupted())
                raise
            if self.study.state is State.INTERRUPTED:
                self.tell(self._interrupted())
                raise KeyboardInterrupt

    def _interrupted(self) -> str:
        what = "Nothing was measured yet."
        if self.study.baseline:
            goes_on = self.study.purpose is Purpose.TUNE and self.study.state is not State.COMPLETE
            kept = "`hotlap show` has what was measured until then."
            what = "The same command goes on from here." if goes_on else kept
        return f"{self.interrupt.told} {what}"

    # The observer of the study

    def doing(self, text: str) -> None:
        """What is being done now."""
        self.live.doing(text)

    def changed(self, study: Study, part: str) -> None:
        """Save, write where the user asked, show what is new."""
        self.study = study
        # What cannot be saved now may be at the end, and is shown in any case.
        with suppress(UserError):
            self.save()
        self.show(part)

    def show(self, part: str, study: Study | None = None) -> None:
        """What of the report is new when `part` is known."""
        self.live.allow((study or self.study).budget_s)
        if self._args.sections:
            self.live.show(*terminal.part(study or self.study, part, verbose=self._args.verbose))

    # Files

    def save(self) -> None:
        """The study as it is, in its folder and where the user wants it."""
        try:
            self.storage.save(self.study)
        finally:
            if self._args.json not in (None, "-"):
                write(Path(self._args.json), lambda path: save(self.study, path))

    def tell(self, text: str) -> None:
        """One line, behind all that was shown."""
        if not self._args.quiet:
            print(text, file=self._stream)

    def finish(self) -> None:
        """The last save, the pages, and the line that says where they are.

        Raises:
            UserError: something could not be written; all else was.
        """
        with ExitStack() as stack:  # the last first, each whatever became of the others
            if self._args.json == "-":
                stack.callback(lambda: print(encode(self.study).decode()))
            if self.study.baseline:
                stack.callback(write_pages, self._args, self.study)
                stack.callback(self._keep_report)
                stack.callback(self.save)

    def _keep_report(self) -> None:
        path = self.storage.folder / "report.html"
        if path.parent.is_dir():  # else it was told why the study could not be saved
            write_text(path, html.render(self.study))
            self.tell(f"Report: {path}")

    # Runs

    @contextmanager
    def launching(self, *, timeout_s: float, memory_bytes: int | None = None) -> Iterator[Launcher]:
        """Starts runs that change nothing of the user's; what could not be protected is told in a warning."""
        with launching(self.aim, timeout_s=timeout_s, memory_bytes=memory_bytes, interrupt=self.interrupt) as launcher:
            yield launcher
            self._warn_not_enclosed(launcher.not_enclosed)
            if launcher.why_afresh:
                self._warn(
                    "Each trial made the script's imports anew, which takes part of the budget: they could not be made "
                    f"once for all ({launcher.why_afresh})."
                )

    @contextmanager
    def placing(self, backend: Backend, *, nodes: int, timeout_s: float, memory_bytes: int | None) -> Iterator[Placed]:
        """The same on nodes of a cluster."""
        folders = tuple(map(str, self.aim.folders()))
        with Placed(
            backend,
            self.storage.folder / "jobs",
            nodes=nodes,
            order=Order(folders=folders, timeout_s=timeout_s, memory_bytes=memory_bytes),
            interrupted=lambda: self.interrupt.asked is not None,
        ) as placed:
            yield placed
            self._warn_not_enclosed(placed.not_enclosed)

    def _warn_not_enclosed(self, why: str | None) -> None:
        if why:
            self._warn(
                f"The script's folder could not be covered by a scratch layer on this system ({why}): files that the "
                "script wrote in its trials were written for real."
            )

    def _warn(self, sentence: str) -> None:
        self.study = replace(self.study, warnings=(*self.study.warnings, sentence))
        if self._args.sections:  # the report's own warnings were shown before
            self.live.show(Text(f"! {clean_line(sentence)}"))


def launching(
    aim: Target, *, timeout_s: float, memory_bytes: int | None = None, interrupt: Interrupt | None = None
) -> Launcher:
    """Starts runs of the training that change nothing of the user's.

    Arguments:
        timeout_s: a run that makes no step for so long is given up.
        memory_bytes: what caches, batches made ahead and workers may take; None: the usual part of what is free.
        interrupt: once it was asked for, runs end.
    """
    return Launcher(
        environment=lambda plan: environment(plan, memory_bytes),
        folders=aim.folders(),
        timeout_s=timeout_s,
        interrupted=lambda: interrupt is not None and interrupt.asked is not None,
        templates=True,
    )


def environment(plan: Plan, memory_bytes: int | None) -> dict[str, str]:
    """What the levers that hold from the start of the process want in it; and, for the functions of `hotlap.data`, in a
    patched script too, how much they may take."""
    stack = (*plan.always, *(plan.arms[0] if len(plan.arms) == 1 else ()))
    limit = {} if memory_bytes is None else {VARIABLE: str(memory_bytes)}
    return levers.environment_of(stack, os.environ) | limit


def say_doing(text: str) -> None:
    """What is being done now, where standard output is for the result."""
    print(f"hotlap: {clean_line(text)} ...", file=sys.stderr)


# Files that the user named


def write(path: Path, action: Callable[[Path], Any]) -> None:
    """Write one.

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


def write_json(path: str | None, found: object) -> None:
    """A record where `--json` wants it, if anywhere; - is standard output."""
    if path == "-":
        print(encode(found).decode())
    elif path is not None:
        write(Path(path), lambda path: path.write_bytes(encode(found) + b"\n"))


def write_pages(args: argparse.Namespace, study: Study) -> None:
    """The study where `--html` and `--markdown` want it; one that cannot be written keeps no other from it."""
    with ExitStack() as stack:
        for name, render in _RENDERS.items():
            if getattr(args, name, None) is not None:
                stack.callback(write_text, Path(getattr(args, name)), render(study))


def hand_out(args: argparse.Namespace, study: Study) -> None:
    """A study that is made: written where the user wants it, and shown, to the end or until nobody reads on."""
    write_pages(args, study)
    for name in _RENDERS:
        if getattr(args, name, None) is not None:
            print(f"{getattr(args, name)} was written.", file=sys.stderr)
    show_result(args, study, terminal.sections(study))


def show_result(args: argparse.Namespace, found: object, sections: Iterable[RenderableType]) -> None:
    """What a command came to: where `--json` wants it, and shown, unless that is standard output."""
    write_json(args.json, found)
    if args.json != "-":
        console.show(sys.stdout, sections, color=args.color)


def _asked(args: argparse.Namespace) -> Iterator[str]:
    """The options that say what a study tries."""
    for name in ("levers", "skip", "allow", "total_steps", "memory", "seed", "on"):
        value = getattr(args, name, None)
        if value:
            yield f"--{name.replace('_', '-')}"
            yield ",".join(value) if isinstance(value, list | tuple) else escaped(str(value))
