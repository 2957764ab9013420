"""checklist (F1): which of the usual recommendations helps this script, and by how much?"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import hotlap
from hotlap import levers, machine
from hotlap.cli import shelf, target
from hotlap.cli.workbench import levers_environment
from hotlap.errors import UserError
from hotlap.lab import gpus
from hotlap.lab.recommendations import RECOMMENDATIONS, Item, Known, wanted_levers
from hotlap.lab.result import Bars, Cell, Quantity, Result, Table, Unit
from hotlap.lab.settings import Settings
from hotlap.lab.words import quantity
from hotlap.launch import Launcher
from hotlap.machine.checkup import checkup
from hotlap.predict import Workload
from hotlap.record import (
    Machine,
    Plan,
    Purpose,
    State,
    Study,
    decode,
)
from hotlap.tune import WATCHES, Measurer, Options, Scope, Tuner, Wanted
from hotlap.units import duration, percent

TITLE = "The usual recommendations, measured on your script"
BUDGET_S, QUICK_BUDGET_S = 180.0, 15.0
_TIMEOUT_S = 120.0


class _Quiet:
    """Observes the study; only what is being done is told."""

    def __init__(self, doing: Callable[[str], None]) -> None:
        self._doing = doing

    def doing(self, text: str) -> None:
        """Passed on."""
        self._doing(text)

    def changed(self, study: Study, part: str) -> None:
        """Nothing is shown before the end."""


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Measure the script, try what the recommendations mean, look at the machine.

    Raises:
        UserError: there is no script. ScriptFailed, NoSteps: it cannot be studied.
    """
    if not settings.words:
        raise UserError("Which training? Give a script: `hotlap lab checklist train.py`.")
    targets = gpus.names(settings)
    cwd = Path(os.getcwd())
    aim = target.parse(settings.words, cwd=cwd, command="lab checklist")
    budget_s = settings.budget_s or (QUICK_BUDGET_S if settings.quick else BUDGET_S)
    options = Options(
        command=aim.command,
        cwd=str(cwd),
        title=aim.title,
        budget_s=budget_s,
        timeout_s=_TIMEOUT_S,
        levers=wanted_levers(),
    )
    here = machine.look()
    with _launcher(aim, cwd) as launcher:
        study = _studied(launcher, options, here, doing, words=settings.words, quick=settings.quick)
        doing("looking at one step operator by operator")
        work = _traced(launcher, options)
    doing("looking at the machine")
    known = Known(
        study=study,
        checkup=checkup(quick=True, doing=doing),
        work=work,
        targets=targets,
    )
    return tell(known, settings, title=aim.title)


@contextmanager
def _launcher(aim: target.Target, cwd: Path) -> Iterator[Launcher]:
    folders = [cwd, *([aim.script.resolve().parent] if aim.script else [])]
    with Launcher(environment=levers_environment, folders=folders, timeout_s=_TIMEOUT_S) as launcher:
        yield launcher


def _studied(
    launcher: Launcher,
    options: Options,
    here: Machine,
    doing: Callable[[str], None],
    *,
    words: Sequence[str],
    quick: bool,
) -> Study:
    """The script as written, looked at from all sides; then the levers."""
    study = Study(
        command=tuple(words),
        cwd=options.cwd,
        created=shelf.now().isoformat(timespec="seconds"),
        key="",
        hotlap=hotlap.__version__,
        purpose=Purpose.MEASURE,
        budget_s=options.budget_s,
    )
    wanted = Wanted(steps=40 if quick else 200, warmup=5 if quick else 20, watches=WATCHES, epoch_end=not quick)
    observer = _Quiet(doing)
    # Of the time, what the first look takes is the measurer's; the trials have a budget of their own.
    patient = replace(options, budget_s=600.0, more_time="give a smaller script")
    scope = Scope(wanted=wanted, repeat=False, sweep=False)
    study = Measurer(launcher, patient, here, observer, scope=scope).run(study)
    study = replace(study, purpose=Purpose.TUNE, state=State.RUNNING, elapsed_s=0.0)
    return Tuner(launcher, options, here, observer).run(study)


def _traced(launcher: Launcher, options: Options) -> Workload | None:
    """One step of it; a run of its own, for a short script has no steps left after all other looks."""
    plan = Plan(command=options.command, cwd=options.cwd, out="", warmup=3, steps=8, watches=("workload",))
    (run,) = launcher([plan], limit_s=options.timeout_s + 60.0)
    return None if run.workload is None else decode(run.workload.encode(), Workload).validated()


def tell(known: Known, settings: Settings, *, title: str) -> Result:
    """The recommendations, one a row."""
    items = [one.judge(one.advice, known) for one in RECOMMENDATIONS]
    rows: list[tuple[Cell, ...]] = [(one.advice, one.effect, one.verdict, one.why) for one in items]
    bars = tuple((one.advice, one.effect) for one in items if one.effect is not None)
    return Result(
        name="checklist",
        title=TITLE,
        story=tuple(_story(known, items, title)),
        tables=(
            Table(
                title=f"{title}, recommendation by recommendation",
                columns=("recommendation", "as fast", "verdict", "why"),
                rows=tuple(rows),
            ),
        ),
        pictures=(Bars(title="What each would bring", unit=Unit.RATIO, bars=bars, log=True),) if bars else (),
        notes=known.study.warnings,
        quick=settings.quick,
        gpus=known.study.machine.gpus if known.study.machine else (),
    )


def _story(known: Known, items: Sequence[Item], title: str) -> list[str]:
    do = [one for one in items if one.verdict == "do it" and one.effect is not None]
    skipped = [one for one in items if one.verdict == "does not apply"]
    first = f"A step of {title} takes {duration(known.run.median_step_s())} here. "
    if do:
        told = "; ".join(f"{one.advice.lower()}: {quantity(one.effect)}" for one in do if one.effect is not None)
        first += f"Of the {len(items)} recommendations {len(do)} {'pays' if len(do) == 1 else 'pay'}: {told}."
    else:
        first += f"None of the {len(items)} recommendations was shown to make it faster."
    result = known.study.result
    both = ""
    if result is not None and result.levers:
        names = ", ".join(levers.from_spec(spec).title() for spec in result.levers)
        both = (
            f"Together ({names}) they bring {quantity(Quantity.of(result.speedup, Unit.RATIO))}; training is "
            f"{result.verdict.value}. `hotlap tune` tries more, and writes the patch."
        )
    rest = (
        f"{len(skipped)} do not apply: {'; '.join(one.advice.lower() for one in skipped)}. The last column says why."
        if skipped
        else ""
    )
    noise = next(iter(known.study.noise), None)
    least = (
        f"Under this machine's noise a gain below {percent(noise.smallest_gain - 1)} could not be told from none."
        if noise
        else ""
    )
    return [paragraph for paragraph in (first, both, rest, least) if paragraph]
