"""hotlap in a notebook: `hotlap.measure(...)` and `hotlap.tune(...)` return a Study that shows itself; `%%hotlap`."""

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any

from hotlap import cli
from hotlap.cli import measure as measuring
from hotlap.cli import tune as tuning
from hotlap.errors import HotlapError, UserError
from hotlap.record import Study
from hotlap.report import html, terminal

Command = str | Path | Sequence[str]
# Enough for the headline, the picture and the findings; the frame scrolls.
_HEIGHT_PX = 720
_STUDIED = {"measure": measuring.studied, "tune": tuning.studied}


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
    options = [f"--steps={steps}", f"--warmup={warmup}", f"--seed={seed}", f"--timeout={timeout_s}"]
    return _study("measure", [*options, *["--quick"] * quick, *["--no-sweep"] * (not sweep), *_words(command)])


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
    options = [f"--budget={budget_s}", f"--seed={seed}", f"--timeout={timeout_s}"]
    wanted = [] if levers is None else [f"--levers={','.join(levers)}"]
    return _study("tune", [*options, *wanted, *_words(command)])


def _words(command: Command) -> list[str]:
    return [str(command)] if isinstance(command, str | Path) else [str(word) for word in command]


def _study(name: str, words: Sequence[str]) -> ShownStudy:
    """That of `hotlap NAME WORDS`, whose sections are not shown: the study shows itself."""
    args = cli.parsed([name, *words])
    args.sections = False
    bench, code = _STUDIED[name](args)
    if code:
        raise KeyboardInterrupt
    return shown_study(bench.study)


def shown_study(study: Study) -> ShownStudy:
    """The same study, able to show itself."""
    return ShownStudy(**{field.name: getattr(study, field.name) for field in fields(study)})


def cell_magic(line: str, cell: str) -> ShownStudy | None:
    """`%%hotlap [measure|tune] [OPTIONS]`, as on the command line.

    The cell is a whole training script: it runs in processes of its own, in this folder, without this notebook's
    variables. What it writes here is thrown away.
    """
    try:
        name, *options = _asked(line)
        with _script_of(cell) as script:
            return _study(name, [*options, script.name])
    except HotlapError as error:
        # A traceback through our own code tells the reader of a notebook nothing.
        output = getattr(error, "output", "")
        print(f"{output.rstrip()}\n\nhotlap: {error}" if output else f"hotlap: {error}", file=sys.stderr)
    except SystemExit:
        pass  # the parser has said why
    return None


def _asked(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UserError(f"%%hotlap: {error}.") from None
    if not words or words[0].startswith("-"):
        return ["measure", *words]
    if words[0] not in _STUDIED:
        raise UserError(f"%%hotlap {words[0]}: the cell can be an argument of {' and '.join(_STUDIED)} alone.")
    return words


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
