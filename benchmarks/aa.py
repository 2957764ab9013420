"""How often does a study of two equal things claim a gain? Fifty live studies, each as `hotlap tune` would make it.

Each study first learns the noise, then tries a lever that does nothing: once switched inside a process, once between
processes, with the same trial groups, stopping rule and confirmation as a real one. `python benchmarks/aa.py [STUDIES
[--more]]`.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scipy.stats import beta

import results_file
from hotlap import machine
from hotlap.experiment import Arm, Comparison, Design, Effect, Rule, Sizes, compare
from hotlap.experiment.statistics import FALSE_CONFIRMATION
from hotlap.launch import Launcher
from hotlap.record import Plan, Study
from hotlap.search import Options, StudyLog
from hotlap.search.confirmation import MOST as CONFIRMED_IN
from hotlap.tune.first_look import first_look
from hotlap.tune.noise import calibrate

CONFIRMATION = Rule(planned=CONFIRMED_IN, patient=True, false_gain=FALSE_CONFIRMATION)

STUDIES = 50
SCOPES = ("step", "process")

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(4096, 784), torch.randint(0, 10, (4096,))
model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())
while True:
    for start in range(0, 4096, 64):
        optimizer.zero_grad()
        loss = loss_fn(model(x[start : start + 64]), y[start : start + 64])
        loss.backward()
        optimizer.step()
"""


class Silent:
    """Nobody watches."""

    def doing(self, text: str) -> None:
        """A few words."""

    def changed(self, study: Study, part: str) -> None:
        """Something is known now."""


def new_log(launcher: Launcher, options: Options) -> StudyLog:
    """A study of which nothing is known yet."""
    study = Study(command=options.command, cwd=options.cwd, created="", key="")
    return StudyLog(study, options, machine.look(), launcher, Silent())


def study(launcher: Launcher, options: Options, scopes: Sequence[str]) -> dict[str, object]:
    """One study; what it found about nothing."""
    log = new_log(launcher, options)
    run = first_look(log, options.plan)
    log.change("baseline", baseline=(run,))
    executor = log.executor(Sizes.of(run, log.machine))
    calibrate(log, executor)
    row: dict[str, object] = {"step_s": run.median_step_s()}
    for scope in scopes:
        nothing = Effect(Arm(), log.pooled(scope))
        design = Design(switched=scope == "step")
        compare(executor, Comparison(effects=[nothing], design=design))
        if nothing.gained:
            again = Effect(Arm(), log.pooled("process"))
            compare(executor, Comparison(effects=[again], design=Design(), rule=CONFIRMATION))
            row[f"{scope}_confirmed"] = again.gained
        speedup = nothing.speedup
        row[f"{scope}_claimed"] = nothing.gained
        row[f"{scope}_confirmed"] = bool(row.get(f"{scope}_confirmed"))
        row[f"{scope}_low"], row[f"{scope}_high"] = (speedup.low, speedup.high) if speedup else (None, None)
        row[f"{scope}_log_ratios"] = nothing.log_ratios
        noise = next((n for n in log.study.noise if n.scope == scope), None)
        row[f"{scope}_noise"] = list(noise.log_ratios) if noise else []
    return row


def main() -> None:
    """Of one process."""
    several("aa", "equal things", studies=STUDIES, script=SCRIPT, scopes=SCOPES)


def several(name: str, things: str, *, studies: int, script: str, scopes: Sequence[str]) -> None:
    """Studies one after the other, as many as the command line says; the result `name` is written after each. With
    `--more` behind their number those that it holds already are among them."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else studies
    more = results_file.path(name) if "--more" in sys.argv else None
    rows: list[dict[str, object]] = json.loads(more.read_text())["results"] if more is not None else []
    for k in range(len(rows), number):
        with launched(script) as (launcher, options):
            rows.append(study(launcher, options, scopes))
        _write(name, things, rows, scopes, more)
        shown = {key: value for key, value in rows[-1].items() if "log_" not in key and "noise" not in key}
        print(k + 1, shown, flush=True)


@contextmanager
def launched(script: str = SCRIPT) -> Iterator[tuple[Launcher, Options]]:
    """What runs `script`, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(script)
        options = Options(command=(sys.executable, str(path)), cwd=folder, title=path.name, budget_s=600.0)
        with Launcher(environment=_nothing, folders=[Path(folder)], timeout_s=60.0, templates=True) as launcher:
            yield launcher, options


def _nothing(plan: Plan) -> dict[str, str]:
    return {}


def _write(name: str, things: str, rows: list[dict[str, object]], scopes: Sequence[str], adds_to: Path | None) -> None:
    results_file.write(name, adds_to=adds_to, results=rows, claims=claims(things, rows, scopes))


def claims(things: str, rows: list[dict[str, object]], scopes: Sequence[str]) -> list[dict[str, object]]:
    """What `rows` say of studies of equal `things`. An interval is shown from three groups of processes on, to which
    only those come that looked best at first: how many of them hold the truth is no rate of coverage."""
    claimed = sum(any(row[f"{scope}_claimed"] for scope in scopes) for row in rows)
    confirmed = sum(any(row[f"{scope}_confirmed"] for scope in scopes) for row in rows)
    shown = [
        row[f"{scope}_low"] <= 1.0 <= row[f"{scope}_high"]
        for row in rows
        for scope in scopes
        if row[f"{scope}_low"] is not None
    ]
    # The largest rate at which so few or fewer come in one of twenty such series (Clopper and Pearson).
    most = float(beta.ppf(0.95, confirmed + 1, len(rows) - confirmed)) if confirmed < len(rows) else 1.0
    return [
        {"claim": f"studies of two {things} (of {len(rows)}) that claimed a gain", "mid": confirmed},
        {"claim": "so false gains come in fewer studies than (95%)", "mid": 100 * most, "unit": "%"},
        {"claim": "the same, before the confirmation in fresh processes", "mid": claimed},
        {"claim": f"95% intervals of {things} that held the truth (of {len(shown)} shown)", "mid": sum(shown)},
    ]


if __name__ == "__main__":
    main()
