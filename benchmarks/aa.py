"""How often does a study of two equal things claim a gain? Thirty live studies, each as `hotlap tune` would make it.

Each study first learns the noise, then tries a lever that does nothing: once switched inside a process, once between
processes, with the same heats, stopping rule and confirmation as a real one. `python benchmarks/aa.py [STUDIES]`.
"""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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

STUDIES = 30

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


def study(launcher: Launcher, options: Options) -> dict[str, object]:
    """One study; what it found about nothing."""
    log = new_log(launcher, options)
    run = first_look(log, options.plan)
    log.change("baseline", baseline=(run,))
    executor = log.executor(Sizes.of(run, log.machine))
    calibrate(log, executor)
    row: dict[str, object] = {"step_s": run.median_step_s()}
    for scope in ("step", "process"):
        nothing, again = Effect(Arm()), Effect(Arm())
        design = Design(switched=scope == "step")
        compare(executor, Comparison(effects=[nothing], design=design, pooled=log.pooled(scope)))
        if nothing.gained:
            pooled = log.pooled("process")
            compare(executor, Comparison(effects=[again], design=Design(), pooled=pooled, rule=CONFIRMATION))
            row[f"{scope}_confirmed"] = again.gained
        speedup = nothing.speedup(log.pooled(scope))
        row[f"{scope}_claimed"] = nothing.gained
        row[f"{scope}_confirmed"] = bool(row.get(f"{scope}_confirmed"))
        row[f"{scope}_low"], row[f"{scope}_high"] = (speedup.low, speedup.high) if speedup else (None, None)
        row[f"{scope}_log_ratios"] = nothing.log_ratios
        noise = next((n for n in log.study.noise if n.scope == scope), None)
        row[f"{scope}_noise"] = list(noise.log_ratios) if noise else []
    return row


def main() -> None:
    """All studies, one after the other; the result is written after each."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES
    rows: list[dict[str, object]] = []
    for k in range(number):
        with launched() as (launcher, options):
            rows.append(study(launcher, options))
        _write(rows)
        print(k + 1, {key: value for key, value in rows[-1].items() if "log_" not in key and "noise" not in key})


@contextmanager
def launched() -> Iterator[tuple[Launcher, Options]]:
    """What runs `SCRIPT`, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "mlp.py"
        script.write_text(SCRIPT)
        options = Options(command=(sys.executable, str(script)), cwd=folder, title="mlp.py", budget_s=600.0)
        with Launcher(environment=_nothing, folders=[Path(folder)], timeout_s=60.0) as launcher:
            yield launcher, options


def _nothing(plan: Plan) -> dict[str, str]:
    return {}


def _write(rows: list[dict[str, object]]) -> None:
    claimed = sum(bool(row["step_claimed"] or row["process_claimed"]) for row in rows)
    confirmed = sum(bool(row["step_confirmed"] or row["process_confirmed"]) for row in rows)
    covered = [
        row[f"{scope}_low"] <= 1.0 <= row[f"{scope}_high"]
        for row in rows
        for scope in ("step", "process")
        if row[f"{scope}_low"] is not None
    ]
    results_file.write(
        "aa",
        results=rows,
        claims=[
            {"claim": f"studies of two equal things (of {len(rows)}) that claimed a gain", "mid": confirmed},
            {"claim": "the same, before the confirmation in fresh processes", "mid": claimed},
            {
                "claim": "95% intervals of equal things that held the truth",
                "mid": 100 * sum(covered) / max(1, len(covered)),
                "unit": "%",
            },
        ],
    )


if __name__ == "__main__":
    main()
