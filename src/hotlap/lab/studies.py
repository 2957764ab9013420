"""Studies of a script within an experiment: measured, tuned, traced for forecasts, compared with edited copies."""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import hotlap
from hotlap import machine
from hotlap.cli import shelf, target
from hotlap.cli.traced import Traced, trace
from hotlap.cli.workbench import levers_environment
from hotlap.experiment import Arm, Design, EditedScript, Effect, Executor, Rule, Sizes, compare
from hotlap.experiment.total import total_s, total_speedup
from hotlap.launch import Launcher
from hotlap.record import Interval, Phase, Purpose, Result, Run, State, Study
from hotlap.search import Options
from hotlap.tune import WATCHES, StudyLog, measured, tuned

_SCRIPTS = Path(__file__).parent / "scripts"
# A run that makes no step for so long is given up.
_TIMEOUT_S = 180.0
# What measuring may take at most, whatever is tried afterwards.
_MEASURE_S = 600.0

Doing = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """An edited copy of the script beside the baseline."""

    run: Run | None
    """Its last process; None where none was timed."""
    step: Interval | None
    """As fast, a typical step; None where too few processes were timed."""
    total: Interval | None
    """As fast, start, epoch starts and one-time costs counted."""
    base_s: float = math.nan
    """Seconds of the whole training in the baseline, from the last process."""
    total_s: float = math.nan
    """The same of the copy."""
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A script, and what starts it."""

    launcher: Launcher
    options: Options
    doing_: Doing
    folder: Path
    words: tuple[str, ...]
    """The training, as behind `hotlap measure`."""

    # The observer of a study.

    def doing(self, text: str) -> None:
        """Passed on."""
        self.doing_(text)

    def changed(self, study: Study, part: str) -> None:
        """Nothing is shown before the end."""

    def asked(self, *words: str, total_steps: int | None = None) -> "Bench":
        """The same script with these words more."""
        options = replace(self.options, command=(*self.options.command, *words), total_steps=total_steps)
        return replace(self, options=options, words=(*self.words, *words))

    def measured(self, *, quick: bool, watches: Sequence[str] = WATCHES, repeat: bool = False) -> Study:
        """The baseline: phases, findings, threads; with `repeat` also ceilings with their intervals."""
        study = Study(
            command=self.options.command[1:],
            cwd=self.options.cwd,
            created=shelf.now().isoformat(timespec="seconds"),
            key="",
            hotlap=hotlap.__version__,
            purpose=Purpose.MEASURE,
        )
        options = replace(self.options, budget_s=_MEASURE_S)
        steps, warmup = (12, 3) if quick else (60, 10)
        plan = replace(options.plan, steps=steps, warmup=warmup, watches=tuple(watches))
        log = StudyLog(study, options, machine.look(), self.launcher, self)
        return measured(log, plan, sweep=not quick, repeat=repeat)

    def tuned(self, study: Study, *, budget_s: float) -> Study:
        """With levers tried, as `hotlap tune` tries them."""
        options = replace(self.options, budget_s=budget_s)
        study = replace(study, purpose=Purpose.TUNE, state=State.RUNNING, budget_s=budget_s, elapsed_s=0.0)
        study = replace(study, total_steps=options.total_steps or study.baseline[0].planned_steps)
        return tuned(StudyLog(study, options, machine.look(), self.launcher, self))

    def traced(self) -> Traced:
        """Some steps, and one of them operator by operator; a run of its own.

        Raises:
            ScriptFailed, NoSteps: it came to nothing.
        """
        self.doing("looking at one step operator by operator")
        return trace(self.words, timeout_s=_TIMEOUT_S, devices=())

    def compared(self, texts: Mapping[str, str], *, base: Run, pairs: int) -> Compared:
        """The script beside the same with other texts (by path): fresh processes that take turns."""
        self.doing("comparing the baseline with its edited copy")
        effect = Effect(Arm(replaced=texts))
        script = EditedScript(lambda: base, cwd=self.options.cwd)
        executor = Executor(self.launcher, self.options.plan, Sizes.of(base, machine.look()), script=script)
        design = Design(epoch_end=True, afresh=True)
        compare([effect], executor, design, pooled=None, rule=Rule(planned=pairs, patient=True))
        if not effect.pairs:
            return Compared(run=None, step=None, total=None, failure=effect.failure.why if effect.failure else "")
        steps, epoch = self.options.total_steps or len(base.step_s), effect.pairs[-1][0].epoch_steps()
        step = effect.speedup(None)
        total = total_speedup(effect.pairs, num_steps=steps, epoch_steps=epoch, pooled=None)
        base_s, total_s_ = (total_s(run, num_steps=steps, epoch_steps=epoch) for run in effect.pairs[-1])
        return Compared(
            run=effect.run, step=step, total=total if step is not None else None, base_s=base_s, total_s=total_s_
        )


@contextmanager
def of_lab(script: str, doing: Doing, *, levers: Sequence[str] | None = None) -> Iterator[Bench]:
    """A copy of the lab's `script` in a folder of its own: as a user's, it lies outside of every package."""
    with tempfile.TemporaryDirectory(prefix="hotlap-lab-") as scratch:
        shutil.copyfile(_SCRIPTS / script, Path(scratch) / script)
        with of_user([f"{scratch}/{script}"], Path(scratch), doing, levers=levers) as found:
            yield found


@contextmanager
def of_user(words: Sequence[str], cwd: Path, doing: Doing, *, levers: Sequence[str] | None = None) -> Iterator[Bench]:
    """The training that the words start in `cwd`. `levers`: those to try; None: all.

    Raises:
        UserError: there is no such script.
    """
    aim = target.parse(words, cwd=cwd, command="lab")
    options = Options(
        command=aim.command,
        cwd=str(cwd),
        title=aim.title,
        timeout_s=_TIMEOUT_S,
        levers=None if levers is None else tuple(levers),
    )
    folders = [cwd, *([aim.script.resolve().parent] if aim.script else [])]
    with Launcher(environment=levers_environment, folders=folders, timeout_s=_TIMEOUT_S, templates=True) as launcher:
        yield Bench(launcher=launcher, options=options, doing_=doing, folder=cwd, words=tuple(words))


def gain(study: Study) -> Result | None:
    """What its levers bring together; None where it accepted none."""
    return study.result if study.result is not None and study.result.levers else None


def waits_s(run: Run) -> float:
    """Mean time a step waits for its batch."""
    return run.mean_phase_s(Phase.INPUT) or 0.0


def mean_s(run: Run) -> float:
    """Mean step."""
    return sum(run.step_s) / len(run.step_s)
