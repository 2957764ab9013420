"""checklist (F1): which of the usual recommendations helps this script, and by how much?"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hotlap import levers
from hotlap.cli.traced import Traced
from hotlap.errors import HotlapError, UserError
from hotlap.lab import gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, ratio
from hotlap.lab.settings import Settings
from hotlap.lab.studies import of_user
from hotlap.machine.checkup import checkup
from hotlap.record import Ceiling, Checkup, Finding, Run, Study, Trial, Verdict
from hotlap.report.story import ceiling_sentence, interval
from hotlap.units import duration, percent, plural

BUDGET_S, QUICK_BUDGET_S = 180.0, 15.0

_ON_GPU = "It is about a GPU, and this training runs on the CPU."


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """As the article has it, and the names under which hotlap tries it or looks for it."""

    advice: str
    levers: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    """Codes of the machine's check-up."""
    ceiling: str = ""
    """Name of the bound on what it can bring."""
    on_gpu_only: bool = False
    judge: "Callable[[Known], Said] | None" = None
    """Says it, where no lever and no rule does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that was found out about the script."""

    study: Study
    checkup: Checkup
    traced: Traced | None
    """One step; None where it could not be traced."""
    targets: tuple[str, ...]

    @property
    def run(self) -> Run:
        """The baseline, timed."""
        return self.study.baseline[0]

    def best_trial(self, names: Sequence[str]) -> Trial | None:
        """Of these levers, each alone; accepted where the stack that it went into was."""
        tried = [one for one in self.study.trials if one.kind in ("lever", "screening")]
        accepted = [spec for one in tried if one.accepted for spec in one.levers]
        trials = [
            replace(one, accepted=one.levers[0] in accepted)
            for one in tried
            if len(one.levers) == 1 and one.levers[0]["name"] in names
        ]
        return max(trials, key=lambda one: (one.accepted, one.seen or 0.0), default=None)

    def finding(self, codes: Sequence[str]) -> Finding | None:
        """The costliest of these."""
        return next((one for one in self.study.findings if one.code in codes), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One recommendation on this script."""

    verdict: str
    why: str
    effect: Quantity | None = None


def run(settings: Settings, doing: Callable[[str], None]) -> Result:
    """Measure the script, try what the recommendations mean, look at the machine.

    Raises:
        UserError: there is no script. ScriptFailed, NoSteps: it cannot be studied.
    """
    if not settings.words:
        raise UserError("Which training? Give a script: `hotlap lab checklist train.py`.")
    targets = gpus.names(settings)
    budget_s = settings.budget_s or (QUICK_BUDGET_S if settings.quick else BUDGET_S)
    with of_user(settings.words, Path(os.getcwd()), doing, levers=wanted_levers()) as bench:
        study = bench.tuned(bench.measured(quick=settings.quick), budget_s=budget_s)
        title, traced = bench.options.title, None
        with suppress(HotlapError):
            traced = bench.traced()
    doing("looking at the machine")
    known = Known(study=study, checkup=checkup(quick=True, doing=doing), traced=traced, targets=targets)
    return tell(known, title=title)


def wanted_levers() -> tuple[str, ...]:
    """Names of all levers behind the recommendations."""
    return tuple(name for one in RECOMMENDATIONS for name in one.levers)


def tell(known: Known, *, title: str) -> Result:
    """The recommendations, one a row."""
    said = {one.advice: judged(one, known) for one in RECOMMENDATIONS}
    rows: list[tuple[Cell, ...]] = [(advice, one.effect, one.verdict, one.why) for advice, one in said.items()]
    helps = [f"{advice.lower()}: {one.effect}" for advice, one in said.items() if one.verdict == "do it" and one.effect]
    first = f"A step of {title} takes {duration(known.run.median_step_s())} here. "
    first += (
        f"Of the {len(said)} recommendations these pay: {'; '.join(helps)}."
        if helps
        else f"None of the {len(said)} recommendations was shown to make it faster."
    )
    story = [first]
    noise = next(iter(known.study.noise), None)
    if noise is not None:
        least = percent(noise.smallest_gain - 1)
        story.append(f"Under this machine's noise a gain below {least} could not be told from none.")
    return Result(
        story=tuple(story),
        tables=(
            Table(
                title=f"{title}, recommendation by recommendation",
                columns=("recommendation", "as fast", "verdict", "why"),
                rows=tuple(rows),
            ),
        ),
        study=known.study,
        gpus=known.study.machine.gpus if known.study.machine else (),
    )


def judged(one: Recommendation, known: Known) -> Said:
    """What this study says of it."""
    if one.judge is not None:
        return one.judge(known)
    if one.on_gpu_only and known.run.device == "cpu":
        return Said(verdict="does not apply", why=_ON_GPU)
    complaint = next((wrong for wrong in known.checkup.complaints if wrong.code in one.complaints), None)
    if complaint is not None:
        return Said(verdict="do it", why=f"{complaint.what} {complaint.cost} {complaint.fix}")
    trial = known.best_trial(one.levers)
    if trial is not None:
        return _of_trial(trial, next((bound for bound in known.study.ceilings if bound.name == one.ceiling), None))
    return _of_rules(one, known.finding(one.rules))


def _of_rules(one: Recommendation, finding: Finding | None) -> Said:
    if finding is not None:
        return Said(verdict="do it", why=finding.evidence)
    if one.levers:
        return Said(verdict="not tried", why="The time was over before it could be tried; --budget gives more.")
    return Said(verdict="nothing to do", why="Nothing of the kind was seen.")


def _of_trial(trial: Trial, ceiling: Ceiling | None) -> Said:
    name = levers.from_spec(trial.levers[0]).title()
    if trial.seen is None:
        most = f" {ceiling_sentence(ceiling)} ({interval(ceiling.speedup)})." if ceiling is not None else ""
        return Said(verdict="does not apply", why=f"{name}: {trial.why.removeprefix('Not tried. ')}{most}")
    return Said(verdict=_verdict(trial), why=f"{name}. {trial.why}", effect=ratio(trial.speedup))


def _verdict(trial: Trial) -> str:
    if trial.accepted:
        return "do it"
    if trial.verdict is Verdict.HARMED:
        return "do not: training is harmed"
    if trial.speedup is not None and trial.speedup.high < 1:
        return "do not: it is slower"
    return "not proved" if trial.speedup is not None and trial.speedup.low > 1 else "no gain shown"


def _better_gpu(known: Known) -> Said:
    if known.traced is None:
        return Said(verdict="unknown", why="No step of the script could be traced.")
    found = gpus.there(known.traced, known.targets[0])
    there = Quantity.of(found.step_s, predicted=True)
    worth = "worth a thought" if found.step_s.high < known.run.median_step_s() else "not sure to help"
    return Said(verdict=worth, why=f"On {gpus.an(found.device)} a step would take {there}, bound by {found.bound_by}.")


def _measured(known: Known) -> Said:
    first = next(iter(known.study.findings), None)
    evidence = first.evidence if first else "No rule found a bottleneck."
    return Said(verdict="done", why=f"A step takes {duration(known.run.median_step_s())}. {evidence}")


def _training_intact(known: Known) -> Said:
    trials = [one for one in known.study.trials if one.kind == "lever" and one.verdict is not Verdict.UNDECIDED]
    harmed = sum(one.verdict is Verdict.HARMED for one in trials)
    why = (
        "Changes that gained and were compared with the baseline, by losses, samples and updates: "
        f"{len(trials)}. Of these harmed training: {harmed}."
        if trials
        else "No change gained enough to be worth comparing training under it."
    )
    return Said(verdict="done", why=why)


def _batch(_: Known) -> Said:
    return Said(
        verdict="your decision",
        why="It is another training and wants another learning rate: `hotlap tune --allow batch-size` tries it, "
        "`hotlap predict --changes` predicts it.",
    )


def _shapes(known: Known) -> Said:
    shapes, found = known.run.shapes, known.finding(("shape-churn",))
    if shapes is None:
        return Said(verdict="unknown", why="The shapes of the batches could not be seen.")
    if found is not None:
        return Said(verdict="do it", why=found.evidence)
    number = f"{plural(shapes.num_shapes, 'shape')} in {shapes.num_steps} steps"
    return Said(verdict="nothing to do", why=f"The model was given {number}.")


_BUILD = ("cpu-torch-beside-gpu", "driver-too-old", "gpu-not-reached", "gpu-not-in-build")

RECOMMENDATIONS: tuple[Recommendation, ...] = (
    Recommendation(advice="A better GPU beats tricks", judge=_better_gpu),
    Recommendation(advice="Measure before you improve", judge=_measured),
    Recommendation(advice="Check that training does not fall apart", judge=_training_intact),
    Recommendation(advice="NVIDIA's container: fitting CUDA, busy tensor cores", complaints=_BUILD, on_gpu_only=True),
    Recommendation(advice="DataLoader with workers, their number measured", levers=("workers",), ceiling="input"),
    Recommendation(
        advice="pin_memory with non_blocking", levers=("pin-and-overlap",), rules=("transfer-bound",), on_gpu_only=True
    ),
    Recommendation(
        advice="Faster formats and readers",
        levers=("cached-dataset", "batched-fetch", "cached-prefix"),
        rules=("input-bound",),
        ceiling="input",
    ),
    Recommendation(
        advice="Throw out needless .cpu(), .to(), .numpy()",
        rules=("sync-bound", "created-and-moved", "transfer-bound"),
        on_gpu_only=True,
    ),
    Recommendation(advice="A larger batch", judge=_batch),
    Recommendation(advice="Fixed batch shapes", judge=_shapes),
    Recommendation(
        advice="Where shapes vary, preallocate",
        rules=("preallocation",),
        on_gpu_only=True,
    ),
    Recommendation(advice="zero_grad(set_to_none=True)", rules=("zero-grad-none",)),
    Recommendation(advice="cudnn.benchmark for fixed shapes", levers=("cudnn-benchmark",), on_gpu_only=True),
    Recommendation(advice="Mixed precision", levers=("bf16-autocast", "fp16-autocast", "tf32")),
    Recommendation(advice="Fused Adam", levers=("fused-optimizer",)),
    Recommendation(advice="Fusing with a compiler", levers=("compile", "native-step", "native-ode")),
)
