"""checklist (F1): which of the usual recommendations helps my script, and by how much?"""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hotlap import levers
from hotlap.errors import UserError
from hotlap.lab import Doing, Settings
from hotlap.lab.result import Cell, Result, Table
from hotlap.lab.studies import of_user
from hotlap.machine.checkup import checkup
from hotlap.record import Checkup, Study, Trial, Verdict
from hotlap.units import duration

TAKES = ("budget", "html", "script")

BUDGET_S = 180.0

DO = "do it"


class Said(NamedTuple):
    """One recommendation on this script."""

    verdict: str
    why: str
    effect: str | None = None


RECOMMENDATIONS: Mapping[str, Said | tuple[str, ...]] = {
    "A better GPU beats tricks": Said(
        "ask", "`hotlap predict` with the same script says what a step would take on it, with an interval."
    ),
    "Measure before you improve": Said("done", "Where the time of a step goes stands below this table."),
    "Check that training does not fall apart": Said(
        "done", "Each change that gained was compared with the baseline: by losses, samples and updates."
    ),
    "NVIDIA's container: fitting CUDA, busy tensor cores": (
        "cpu-torch-beside-gpu",
        "driver-too-old",
        "gpu-not-reached",
        "gpu-not-in-build",
    ),
    "DataLoader with workers, their number measured": ("workers",),
    "pin_memory with non_blocking": ("pin-and-overlap", "transfer-bound"),
    "Faster formats and readers": ("cached-dataset", "batched-fetch", "cached-prefix", "input-bound"),
    "Throw out needless .cpu(), .to(), .numpy()": ("sync-bound", "transfer-bound"),
    "A larger batch": Said(
        "your decision",
        "It is another training and wants another learning rate: `hotlap tune --allow batch-size` tries it.",
    ),
    "Fixed batch shapes": ("shape-churn",),
    "Where shapes vary, preallocate": Said(
        "by hand", "On a GPU that is nearly full: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
    ),
    "zero_grad(set_to_none=True)": Said(
        "by hand", "It is torch's default since 2.0; take `set_to_none=False` out where a script still asks for it."
    ),
    "Create tensors on the device": ("transfer-bound",),
    "cudnn.benchmark for fixed shapes": ("cudnn-benchmark",),
    "Mixed precision": ("bf16-autocast", "tf32"),
    "Fused Adam": ("fused-optimizer",),
    "Fusing with a compiler": ("compile", "native-step", "native-ode"),
}
"""As the article has it, and one of PyTorch's tuning guide -> names under which hotlap tries it, or looks for it: of
levers, of rules, or of what the machine's check-up finds wrong; or what is said of it without."""

_ON_GPU_ONLY = ("NVIDIA's", "pin_memory", "Throw out", "Where shapes", "Create tensors", "cudnn")
"""How those begin that are about a GPU."""

_NO_GPU = Said("does not apply", "It is about a GPU, and this training runs on the CPU.")
_UNTRIED = Said("not tried", "The time was over before it could be tried; --budget gives more.")
_UNSEEN = Said("nothing to do", "Nothing of the kind was seen.")


def run(settings: Settings, doing: Doing) -> Result:
    """Measure the script, try what the recommendations mean, look at the machine.

    Raises:
        UserError: there is no script. ScriptFailed, NoSteps: it cannot be studied.
    """
    if not settings.words:
        raise UserError("Which training? Give a script: `hotlap lab checklist train.py`.")
    with of_user(settings.words, Path(os.getcwd()), doing, levers=wanted_levers()) as bench:
        study = bench.studied(quick=settings.quick, budget_s=settings.tries_s(BUDGET_S))
    doing("looking at the machine")
    return tell(study, checkup(quick=True, doing=doing), title=bench.options.title)


def wanted_levers() -> tuple[str, ...]:
    """Names of all levers behind the recommendations."""
    known = {kind.name for kind in levers.ALL}
    looked_for = (names for names in RECOMMENDATIONS.values() if not isinstance(names, Said))
    return tuple(name for names in looked_for for name in names if name in known)


def tell(study: Study, here: Checkup, *, title: str) -> Result:
    """The recommendations, one a row."""
    said = {one: judged(one, study, here) for one in RECOMMENDATIONS}
    rows: list[tuple[Cell, ...]] = [(advice, effect, verdict, why) for advice, (verdict, why, effect) in said.items()]
    helps = [f"{advice.lower()}: {one.effect}" for advice, one in said.items() if one.verdict == DO and one.effect]
    first = f"A step of {title} takes {duration(study.baseline[0].median_step_s())} here. "
    first += (
        f"Of the {len(said)} recommendations these pay: {'; '.join(helps)}."
        if helps
        else f"None of the {len(said)} recommendations was shown to make it faster."
    )
    columns = ("recommendation", "as fast", "verdict", "why")
    table = Table(title=f"{title}, recommendation by recommendation", columns=columns, rows=tuple(rows))
    return Result(story=(first,), tables=(table,), study=study)


def judged(advice: str, study: Study, here: Checkup) -> Said:
    """What this study says of it."""
    names = RECOMMENDATIONS[advice]
    of_gpu = study.baseline[0].device == "cpu" and advice.startswith(_ON_GPU_ONLY)
    if isinstance(names, Said):
        return _NO_GPU if of_gpu else names
    wrong = next((wrong for wrong in here.complaints if wrong.code in names), None)
    if wrong is not None:
        return Said(DO, f"{wrong.what} {wrong.cost} {wrong.fix}")
    if of_gpu:
        return _NO_GPU
    trial = _best_trial(names, study)
    finding = next((one for one in study.findings if one.code in names), None)  # the costliest first
    begun = {spec["name"] for one in study.trials for spec in one.levers}
    left = {*names} & {*wanted_levers()} - begun
    if trial is not None and (trial.seen is not None or not left):
        return _by_trial(trial)
    if finding is not None:
        return Said(DO, finding.evidence)
    return _UNTRIED if left else _UNSEEN


def _best_trial(names: tuple[str, ...], study: Study) -> Trial | None:
    """Of its levers, each alone; accepted where the stack that it went into was."""
    tried = [trial for trial in study.trials if trial.kind in ("lever", "screening")]
    accepted = [spec for trial in tried if trial.accepted for spec in trial.levers]
    trials = [
        replace(trial, accepted=trial.levers[0] in accepted)
        for trial in tried
        if len(trial.levers) == 1 and trial.levers[0]["name"] in names
    ]
    return max(trials, key=lambda trial: (trial.accepted, trial.seen or 0.0), default=None)


def _by_trial(trial: Trial) -> Said:
    name = levers.from_spec(trial.levers[0]).title()
    if trial.seen is None:
        return Said("does not apply", f"{name}: {trial.why.removeprefix('Not tried. ')}")
    return Said(_verdict(trial), f"{name}. {trial.why}", trial.speedup.told if trial.speedup else None)


def _verdict(trial: Trial) -> str:
    if trial.accepted:
        return DO
    if trial.verdict is Verdict.HARMED:
        return "do not: training is harmed"
    if trial.speedup is not None and trial.speedup.high < 1:
        return "do not: it is slower"
    return "not proved" if trial.speedup is not None and trial.speedup.low > 1 else "no gain shown"
