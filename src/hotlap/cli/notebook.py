"""hotlap in a notebook: `hotlap.measure(...)` and `hotlap.tune(...)` return a Study that shows itself."""

import shlex
from collections.abc import Sequence
from dataclasses import fields
from html import escape
from pathlib import Path

from hotlap import cli
from hotlap.cli import measure as measuring
from hotlap.cli import tune as tuning
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
    seed: int = 0,
    timeout_s: float = 120.0,
) -> ShownStudy:
    """Where the time of a training step goes, and what could be gained at best: `hotlap measure`.

    Arguments:
        command: a line, or its words: "train.py --lr 0.1", ["train.py", "--lr", "0.1"], ["-m", "package.train"].
        steps: to record.
        warmup: steps that are made and thrown away first.
        quick: run the script once only.
        seed: for scripts that set none.
        timeout_s: a run that makes no step for so long is given up.

    Raises:
        UserError: the script cannot be used. ScriptFailed: it failed. NoSteps: it made too few training steps.
    """
    options = [f"--steps={steps}", f"--warmup={warmup}", f"--seed={seed}", f"--timeout={timeout_s}"]
    return _study("measure", [*options, *["--quick"] * quick, *_words(command)])


def tune(
    command: Command,
    *,
    budget_s: float = 300.0,
    levers: str | Sequence[str] | None = None,
    seed: int = 0,
    timeout_s: float = 120.0,
) -> ShownStudy:
    """Try what makes a training faster, and prove it: `hotlap tune`. `hotlap apply` applies the patch afterwards.

    Arguments:
        command: as for `measure`.
        budget_s: time for the whole study.
        levers: names of those to try, also as "threads,tf32"; None: all.
        seed: for scripts that set none.
        timeout_s: a run that makes no step for so long is given up.

    Raises:
        UserError: the script, or a lever, cannot be used. ScriptFailed: it failed. NoSteps: too few training steps.
    """
    options = [f"--budget={budget_s}", f"--seed={seed}", f"--timeout={timeout_s}"]
    names = levers if isinstance(levers, str | None) else ",".join(levers)
    wanted = [] if names is None else [f"--levers={names}"]
    return _study("tune", [*options, *wanted, *_words(command)])


def _words(command: Command) -> list[str]:
    """A text that is no file's name is a line, and is split as a shell does it."""
    if isinstance(command, str) and not Path(command).exists():
        return shlex.split(command)
    return [str(command)] if isinstance(command, str | Path) else [str(word) for word in command]


def _study(name: str, words: Sequence[str]) -> ShownStudy:
    """That of `hotlap NAME WORDS`, whose sections are not shown: the study shows itself."""
    args = cli.parsed([name, *words])
    args.sections = False
    return shown_study(_STUDIED[name](args))


def shown_study(study: Study) -> ShownStudy:
    """The same study, able to show itself."""
    return ShownStudy(**{field.name: getattr(study, field.name) for field in fields(study)})
