"""checklist (F1): which of the usual recommendations helps my script, and by how much?"""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hotlap import levers
from hotlap.errors import HotlapError, UserError
from hotlap.lab import Doing, Settings, gpus
from hotlap.lab.result import Cell, Quantity, Result, Table, Unit
from hotlap.lab.studies import of_user
from hotlap.machine.checkup import checkup
from hotlap.record import Checkup, Prediction, Study, Trial, Verdict
from hotlap.units import duration

TAKES = ("gpu", "budget", "html", "script")

BUDGET_S, QUICK_BUDGET_S = 180.0, 15.0

DO = "do it"
_BETTER_GPU = "A better GPU beats tricks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """As the article has it, and the names under which hotlap tries it, or looks for it."""

    advice: str
    names: tuple[str, ...] = ()
    """Of levers, of rules, or of what the machine's check-up finds wrong."""
    on_gpu_only: bool = False
    says: tuple[str, str] | None = None
    """Verdict and reason, where it is no question of measuring."""


Said = tuple[str, str, Quantity | None]
"""One recommendation on this script: the verdict, why, and what it brings."""


def run(settings: Settings, doing: Doing) -> Result:
    """Measure the script, try what the recommendations mean, look at the machine.

    Raises:
        UserError: there is no script. ScriptFailed, NoSteps: it cannot be studied.
    """
    if not settings.words:
        raise UserError("Which training? Give a script: `hotlap lab checklist train.py`.")
    another = gpus.names(settings)[0]
    budget_s = settings.tries_s(BUDGET_S, quick_s=QUICK_BUDGET_S)
    with of_user(settings.words, Path(os.getcwd()), doing, levers=wanted_levers()) as bench:
        study = bench.studied(quick=settings.quick, budget_s=budget_s)
        title, better = bench.options.title, None
        with suppress(HotlapError):
            better = gpus.there(bench.traced(), another)
    doing("looking at the machine")
    return tell(study, checkup(quick=True, doing=doing), better, title=title)


def wanted_levers() -> tuple[str, ...]:
    """Names of all levers behind the recommendations."""
    known = {kind.name for kind in levers.ALL}
    return tuple(name for one in RECOMMENDATIONS for name in one.names if name in known)


def tell(study: Study, here: Checkup, better: Prediction | None, *, title: str) -> Result:
    """The recommendations, one a row. `better`: a step on another GPU; None where none could be traced."""
    said: dict[str, Said] = {_BETTER_GPU: _better_gpu(study, better)}
    said |= {one.advice: judged(one, study, here) for one in RECOMMENDATIONS}
    rows: list[tuple[Cell, ...]] = [(advice, effect, verdict, why) for advice, (verdict, why, effect) in said.items()]
    helps = [f"{advice.lower()}: {effect}" for advice, (verdict, _, effect) in said.items() if verdict == DO and effect]
    first = f"A step of {title} takes {duration(study.baseline[0].median_step_s())} here. "
    first += (
        f"Of the {len(said)} recommendations these pay: {'; '.join(helps)}."
        if helps
        else f"None of the {len(said)} recommendations was shown to make it faster."
    )
    return Result(
        story=(first,),
        tables=(
            Table(
                title=f"{title}, recommendation by recommendation",
                columns=("recommendation", "as fast", "verdict", "why"),
                rows=tuple(rows),
            ),
        ),
        study=study,
    )


def _better_gpu(study: Study, found: Prediction | None) -> Said:
    if found is None:
        return "unknown", "No step of the script could be traced.", None
    there = Quantity.of(found.step_s, predicted=True)
    worth = "worth a thought" if found.step_s.high < study.baseline[0].median_step_s() else "not sure to help"
    return worth, f"On the {found.device} a step would take {there}, bound by {found.bound_by}.", None


def judged(one: Recommendation, study: Study, here: Checkup) -> Said:
    """What this study says of it."""
    if one.says is not None:
        return *one.says, None
    if one.on_gpu_only and study.baseline[0].device == "cpu":
        return "does not apply", "It is about a GPU, and this training runs on the CPU.", None
    wrong = next((wrong for wrong in here.complaints if wrong.code in one.names), None)
    if wrong is not None:
        return DO, f"{wrong.what} {wrong.cost} {wrong.fix}", None
    trial = _best_trial(one, study)
    return _by_rules(one, study) if trial is None else _by_trial(trial)


def _best_trial(one: Recommendation, study: Study) -> Trial | None:
    """Of its levers, each alone; accepted where the stack that it went into was."""
    tried = [trial for trial in study.trials if trial.kind in ("lever", "screening")]
    accepted = [spec for trial in tried if trial.accepted for spec in trial.levers]
    trials = [
        replace(trial, accepted=trial.levers[0] in accepted)
        for trial in tried
        if len(trial.levers) == 1 and trial.levers[0]["name"] in one.names
    ]
    return max(trials, key=lambda trial: (trial.accepted, trial.seen or 0.0), default=None)


def _by_trial(trial: Trial) -> Said:
    name = levers.from_spec(trial.levers[0]).title()
    if trial.seen is None:
        return "does not apply", f"{name}: {trial.why.removeprefix('Not tried. ')}", None
    return _verdict(trial), f"{name}. {trial.why}", Quantity.of(trial.speedup, Unit.RATIO) if trial.speedup else None


def _by_rules(one: Recommendation, study: Study) -> Said:
    for finding in study.findings:  # the costliest first
        if finding.code in one.names:
            return DO, finding.evidence, None
    if set(one.names) & set(wanted_levers()):
        return "not tried", "The time was over before it could be tried; --budget gives more.", None
    return "nothing to do", "Nothing of the kind was seen.", None


def _verdict(trial: Trial) -> str:
    if trial.accepted:
        return DO
    if trial.verdict is Verdict.HARMED:
        return "do not: training is harmed"
    if trial.speedup is not None and trial.speedup.high < 1:
        return "do not: it is slower"
    return "not proved" if trial.speedup is not None and trial.speedup.low > 1 else "no gain shown"


_BUILD = ("cpu-torch-beside-gpu", "driver-too-old", "gpu-not-reached", "gpu-not-in-build")
_BY_SCRIPT = ("sync-bound", "created-and-moved", "transfer-bound")
_READERS = ("cached-dataset", "batched-fetch", "cached-prefix", "input-bound")

RECOMMENDATIONS: tuple[Recommendation, ...] = (
    Recommendation(
        advice="Measure before you improve", says=("done", "Where the time of a step goes stands below this table.")
    ),
    Recommendation(
        advice="Check that training does not fall apart",
        says=("done", "Each change that gained was compared with the baseline: by losses, samples and updates."),
    ),
    Recommendation(advice="NVIDIA's container: fitting CUDA, busy tensor cores", names=_BUILD, on_gpu_only=True),
    Recommendation(advice="DataLoader with workers, their number measured", names=("workers",)),
    Recommendation(
        advice="pin_memory with non_blocking", names=("pin-and-overlap", "transfer-bound"), on_gpu_only=True
    ),
    Recommendation(advice="Faster formats and readers", names=_READERS),
    Recommendation(advice="Throw out needless .cpu(), .to(), .numpy()", names=_BY_SCRIPT, on_gpu_only=True),
    Recommendation(
        advice="A larger batch",
        says=(
            "your decision",
            "It is another training and wants another learning rate: `hotlap tune --allow batch-size` tries it.",
        ),
    ),
    Recommendation(advice="Fixed batch shapes", names=("shape-churn",)),
    Recommendation(advice="Where shapes vary, preallocate", names=("preallocation",), on_gpu_only=True),
    Recommendation(advice="zero_grad(set_to_none=True)", names=("zero-grad-none",)),
    Recommendation(advice="cudnn.benchmark for fixed shapes", names=("cudnn-benchmark",), on_gpu_only=True),
    Recommendation(advice="Mixed precision", names=("bf16-autocast", "fp16-autocast", "tf32")),
    Recommendation(advice="Fused Adam", names=("fused-optimizer",)),
    Recommendation(advice="Fusing with a compiler", names=("compile", "native-step", "native-ode")),
)
