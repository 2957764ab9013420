"""hotlap in a notebook: `hotlap.measure(...)` and `hotlap.tune(...)` return a Study that shows itself; `%%hotlap`."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from typing import Any, NoReturn

import hotlap
from hotlap import machine
from hotlap.cli import live, shelf, target
from hotlap.cli import words as cli_words
from hotlap.cli.workbench import launching
from hotlap.errors import HotlapError, UserError
from hotlap.record import Purpose, Study
from hotlap.report import html, terminal
from hotlap.tune import WATCHES, Options, StudyLog, measured, tuned

Command = str | Path | Sequence[str]
# A study without trials ends by itself; this only bounds what a script with slow steps may take.
_MEASURE_S = 600.0
# Enough for the headline, the picture and the findings; the frame scrolls.
_HEIGHT_PX = 720


class ShownStudy(Study):
    """A study that a notebook shows as its report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The report in a frame of its own: its style stays out of the notebook, and nothing in it can run."""
        page = escape(html.render(self), quote=True)
        return f'<iframe srcdoc="{page}" sandbox="" style="width:100%;height:{_HEIGHT_PX}px;border:0"></iframe>'

    def __repr__(self) -> str:
        return terminal.render(self)


def measure(
    command: Command,
    *,
    steps: int = 200,
    warmup: int = 20,
    quick: bool = False,
    sweep: bool = True,
    seed: int = 0,
    timeout_s: float = 120.0,
) -> ShownStudy:
    """Where the time of a training step goes, and what could be gained at best: `hotlap measure`.

    Arguments:
        command: a script, or its words: "train.py", ["train.py", "--lr", "0.1"], ["-m", "package.train"].
        steps: to record.
        warmup: steps that are made and thrown away first.
        quick: run the script once only.
        sweep: try the step with other numbers of threads, where that can tell something.
        seed: for scripts that set none.
        timeout_s: a run that makes no step for so long is given up.

    Raises:
        UserError: the script cannot be used. ScriptFailed: it failed. NoSteps: it made too few training steps.
    """
    if steps < 8 or warmup < 0:
        raise UserError(f"steps={steps}, warmup={warmup}: at least 8 steps are needed, and no negative warm-up.")
    aim, options = _asked(command, budget_s=_MEASURE_S, timeout_s=timeout_s, seed=seed, name="measure")
    options = replace(options, more_time="raise timeout_s")
    plan = replace(options.plan, steps=steps, warmup=warmup, watches=WATCHES, whole_epoch=True)

    def work(log: StudyLog) -> Study:
        return measured(log, plan, repeat=not quick, sweep=sweep and not quick)

    return _studied(aim, options, work, purpose=Purpose.MEASURE)


def tune(
    command: Command,
    *,
    budget_s: float = 300.0,
    levers: Sequence[str] | None = None,
    seed: int = 0,
    timeout_s: float = 120.0,
) -> ShownStudy:
    """Try what makes a training faster, and prove it: `hotlap tune`. `hotlap apply` applies the patch afterwards.

    Arguments:
        command: as for `measure`.
        budget_s: time for the whole study.
        levers: names of those to try; None: all.
        seed: for scripts that set none.
        timeout_s: a run that makes no step for so long is given up.

    Raises:
        UserError: the script, or a lever, cannot be used. ScriptFailed: it failed. NoSteps: too few training steps.
    """
    from hotlap.levers import by_name

    for name in levers or ():
        by_name(name)
    aim, options = _asked(command, budget_s=budget_s, timeout_s=timeout_s, seed=seed, name="tune")
    options = replace(options, levers=None if levers is None else tuple(levers), more_time="raise budget_s")
    return _studied(aim, options, tuned, purpose=Purpose.TUNE)


def _asked(
    command: Command, *, budget_s: float, timeout_s: float, seed: int, name: str
) -> tuple[target.Target, Options]:
    """What is started, checked."""
    if budget_s <= 0 or timeout_s <= 0:
        raise UserError(f"{budget_s} s and {timeout_s} s: times are above 0.")
    words = [str(command)] if isinstance(command, str | Path) else [str(word) for word in command]
    cwd = Path(os.getcwd())
    aim = target.parse(words, cwd=cwd, command=name)
    options = Options(
        command=aim.command, cwd=str(cwd), title=aim.title, budget_s=budget_s, timeout_s=timeout_s, seed=seed
    )
    return aim, options


class _Keeper:
    """Observes a study: keeps it on its shelf as it grows, and tells what is being done."""

    def __init__(self, place: shelf.Shelf, shown: live.Live) -> None:
        self._place = place
        self._shown = shown

    def doing(self, text: str) -> None:
        """A line."""
        self._shown.doing(text)

    def changed(self, study: Study, part: str) -> None:
        """Saved; what cannot be saved now may be at the end."""
        with suppress(UserError):
            self._place.save(study)


def _studied(
    aim: target.Target, options: Options, work: Callable[[StudyLog], Study], *, purpose: Purpose
) -> ShownStudy:
    cwd, created = Path(options.cwd), shelf.now()
    study = Study(
        command=tuple(aim.command[1:]) if aim.command[0] == sys.executable else aim.command,
        cwd=options.cwd,
        created=created.isoformat(timespec="seconds"),
        key=shelf.study_key(aim.command, cwd, aim.script, f"notebook {created.isoformat()}"),
        hotlap=hotlap.__version__,
        purpose=purpose,
        budget_s=options.budget_s,
    )
    with (
        closing(shelf.Shelf(cwd, aim.title, created)) as place,
        live.Live(sys.stdout, budget_s=options.budget_s if purpose is Purpose.TUNE else None) as shown,
        launching(aim, cwd, timeout_s=options.timeout_s) as launcher,
    ):
        place.check()
        log = StudyLog(study, options, machine.look(), launcher, _Keeper(place, shown))
        found = shown_study(work(log))
        try:
            place.save(found)
            place.write("report.html", html.render(found))
        except UserError as error:
            shown.doing(str(error))  # the caller gets the study all the same
    return found


def shown_study(study: Study) -> ShownStudy:
    """The same study, able to show itself."""
    return ShownStudy(**{field.name: getattr(study, field.name) for field in fields(study)})


# The magic


class _MagicParser(argparse.ArgumentParser):
    """Raises instead of ending the process, which is the notebook's kernel."""

    def error(self, message: str) -> NoReturn:
        """One sentence."""
        raise UserError(f"%%hotlap: {message}.")


def _parser() -> _MagicParser:
    parser = _MagicParser(prog="%%hotlap", add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("action", nargs="?", choices=("measure", "tune"), default="measure")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", default="200")
    parser.add_argument("--warmup", default="20")
    parser.add_argument("--budget", default="5m")
    parser.add_argument("--levers")
    return parser


def cell_magic(line: str, cell: str) -> ShownStudy | None:
    """`%%hotlap [measure|tune] [--quick] [--steps N] [--warmup N] [--budget TIME] [--levers NAMES]`.

    The cell is a whole training script: it runs in processes of its own, in this folder, without this notebook's
    variables. What it writes here is thrown away.
    """
    try:
        return _run_cell(line, cell)
    except HotlapError as error:
        # A traceback through our own code tells the reader of a notebook nothing.
        output = getattr(error, "output", "")
        print(f"{output.rstrip()}\n\nhotlap: {error}" if output else f"hotlap: {error}", file=sys.stderr)
        return None


def _run_cell(line: str, cell: str) -> ShownStudy:
    try:
        asked = _parser().parse_args(shlex.split(line))
    except (ValueError, argparse.ArgumentError) as error:
        raise UserError(f"%%hotlap: {error}.") from None
    with _script_of(cell) as script:
        if asked.action == "tune":
            names = cli_words.several(asked.levers) if asked.levers else None
            return tune(script.name, budget_s=cli_words.seconds(asked.budget, "--budget"), levers=names)
        return measure(
            script.name,
            steps=cli_words.whole_number(asked.steps, "--steps", least=8),
            warmup=cli_words.whole_number(asked.warmup, "--warmup"),
            quick=asked.quick,
        )


@contextmanager
def _script_of(cell: str) -> Iterator[Path]:
    """The cell as a script beside the notebook: it finds modules and data as the notebook does."""
    folder = Path(os.getcwd())
    try:
        number, name = tempfile.mkstemp(prefix="hotlap-cell-", suffix=".py", dir=folder)
    except OSError as error:
        raise UserError(f"The cell cannot be written beside the notebook, in {folder}: {error.strerror}.") from None
    script = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(cell)
        yield script
    finally:
        script.unlink(missing_ok=True)


def load_ipython_extension(ipython: Any) -> None:
    """`%load_ext hotlap`."""
    ipython.register_magic_function(cell_magic, "cell", "hotlap")
