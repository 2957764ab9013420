"""A script within an experiment: measured, tuned, checked and traced for forecasts, as the commands of that name do."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import hotlap
from hotlap import machine
from hotlap.cli import storage, target
from hotlap.cli.traced import Traced, trace
from hotlap.cli.workbench import launching
from hotlap.lab import Doing
from hotlap.lab.result import in_words
from hotlap.launch import Launcher
from hotlap.record import Purpose, State, Study
from hotlap.search import Options
from hotlap.tune import PROFILERS, Check, Checked, StudyLog, measured, tuned

_SCRIPTS = Path(__file__).parent / "scripts"
# A run that makes no step for so long is given up.
_TIMEOUT_S = 180.0
# What measuring may take at most, whatever is tried afterwards.
_MEASURE_S = 600.0

# Of scripts/mnist.py.
MNIST_ITEMS, BATCH_SIZE = 60_000, 64
PATTERNS = "The data are not MNIST but as many noisy patterns of ten kinds: as much work, an easier task."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A script, and what starts it."""

    launcher: Launcher
    options: Options
    doing: Doing
    words: tuple[str, ...]
    """The training, as behind `hotlap measure`."""

    def changed(self, study: Study, part: str) -> None:
        """As an observer of a study: nothing is shown before the end."""

    def asked(self, *words: str, total_steps: int | None = None) -> "Bench":
        """The same script with these words more."""
        options = replace(self.options, command=(*self.options.command, *words), total_steps=total_steps)
        return replace(self, options=options, words=(*self.words, *words))

    def studied(self, *, quick: bool, budget_s: float, profilers: Sequence[str] = PROFILERS) -> Study:
        """The baseline (phases, findings; threads unless `quick`), then levers, as `hotlap tune` tries them."""
        steps, warmup = (12, 3) if quick else (60, 10)
        plan = replace(self.options.plan, steps=steps, warmup=warmup, profilers=tuple(profilers))
        study = measured(self._log(_MEASURE_S), plan, sweep=not quick, repeat=False)
        study = replace(study, purpose=Purpose.TUNE, state=State.RUNNING, budget_s=budget_s, elapsed_s=0.0)
        study = replace(study, total_steps=self.options.total_steps or study.baseline[0].planned_steps)
        return tuned(self._log(budget_s, study))

    def checked(self, texts: Mapping[str, str], *, budget_s: float) -> Checked:
        """The script beside the same with other texts (by path), as `hotlap check` compares them."""
        before = {path: Path(path).read_text(encoding="utf-8") for path in texts}
        return Check(self._log(budget_s), texts, before=before).run()

    def traced(self) -> Traced:
        """Some steps, and one of them operator by operator; a run of its own.

        Raises:
            ScriptFailed, NoSteps: it came to nothing.
        """
        self.doing("looking at one step operator by operator")
        return trace(self.words, timeout_s=_TIMEOUT_S)

    def _log(self, budget_s: float, study: Study | None = None) -> StudyLog:
        begun = Study(
            command=self.words,
            cwd=self.options.cwd,
            created=storage.now().isoformat(timespec="seconds"),
            key="",
            hotlap=hotlap.__version__,
            purpose=Purpose.MEASURE,
        )
        return StudyLog(study or begun, replace(self.options, budget_s=budget_s), machine.look(), self.launcher, self)


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
    with launching(aim, timeout_s=_TIMEOUT_S) as launcher:
        yield Bench(launcher=launcher, options=options, doing=doing, words=tuple(words))


def gain(study: Study) -> str:
    """What its patch brings, in words; a step, and the whole training."""
    result = study.result
    if result is None or not result.levers:
        return "`hotlap tune` found no patch here in its time; --budget gives more."
    return (
        f"With hotlap's patch a step is {in_words(result.speedup)}; the whole training, starts and first steps "
        f"included, {in_words(result.total_speedup)}."
    )
