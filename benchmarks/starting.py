"""What starting a process costs, and what it does to its times: afresh, or as a fork of one that has made the imports.

Ten pairs of equal processes each way, one way after the other in turns (A B, B A, ...), for a small MLP and a small
convolutional network, both on one thread: the seconds to the first step, and how far equal processes differ. The two
of a pair are alive together and take turns of some steps, as in a trial group, so what else the machine does hits both:
the coefficient of variation is that of the ratio of their median steps, divided by the square root of two. Then trial
groups of the demo (`examples/digits.py`), sized as `hotlap tune` sizes them, two processes in each: the part of a trial
group that is over when both have made their first step.
"""

import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import results_file
from hotlap import machine
from hotlap.experiment import Arm, Design, EditedScript, Executor, Sizes
from hotlap.launch import Launcher
from hotlap.record import Plan, Run, Turn

REPEATS = 10
TRIAL_GROUPS = 3
TURN = 11
WAYS = ("afresh", "forked")

LOOP = """
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential({layers})
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn({shape}), torch.randint(10, ({batch},))
for _ in range(5000):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

CONV = "nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)"

# Name -> (text, steps to time).
SCRIPTS = {
    "MLP 784-128-10, batch 64": (
        LOOP.format(layers="nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)", shape="64, 784", batch=64),
        600,
    ),
    "conv 3-16-32, 32x32, batch 16": (LOOP.format(layers=CONV, shape="16, 3, 32, 32", batch=16), 150),
}

DEMO = Path(__file__).parents[1] / "examples" / "digits.py"


def launcher(way: str, folder: Path) -> Launcher:
    return Launcher(environment=lambda plan: {}, folders=[folder], timeout_s=300.0, templates=way == "forked")


def started(launch: Launcher, plans: Sequence[Plan], way: str) -> list[Run]:
    """Processes started in this way."""
    runs = launch(plans, limit_s=300.0)
    if any(run.forked != (way == "forked") for run in runs):
        raise SystemExit(f"It was not {way}: {launch.why_afresh}")
    return runs


def order(k: int) -> Sequence[str]:
    """Serpentine."""
    return WAYS if k % 2 == 0 else WAYS[::-1]


def spread(name: str, folder: Path) -> list[dict[str, object]]:
    """Rows of results: equal processes of one script, started both ways."""
    text, steps = SCRIPTS[name]
    (folder / "train.py").write_text(text)
    plan = Plan(command=(sys.executable, "train.py"), cwd=str(folder), out="", steps=steps, warmup=steps // 3)
    pair = [replace(plan, turn=Turn(steps=TURN, ready="", go=""))] * 2
    setups: dict[str, list[float]] = {way: [] for way in WAYS}
    steps_s: dict[str, list[float]] = {way: [] for way in WAYS}
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    with launcher("afresh", folder) as afresh, launcher("forked", folder) as forked:
        launches = dict(zip(WAYS, (afresh, forked), strict=True))
        forked([plan], limit_s=300.0)  # the first one tells what there is to import
        template_s = time.perf_counter()
        started(forked, [plan], "forked")
        template_s = time.perf_counter() - template_s
        for k in range(REPEATS):
            for way in order(k):
                runs = started(launches[way], pair, way)
                setups[way] += [run.setup_s or 0.0 for run in runs]
                one_s, other_s = (run.median_step_s() for run in runs)
                steps_s[way] += [one_s, other_s]
                ratios[way].append(math.log(one_s / other_s))
    return [
        {
            "script": name,
            "way": way,
            "setup_s": [round(seconds, 3) for seconds in setups[way]],
            "median_setup_s": statistics.median(setups[way]),
            "median_step_s": statistics.median(steps_s[way]),
            "log_ratios": [round(ratio, 4) for ratio in ratios[way]],
            "cv": math.sqrt(statistics.fmean(ratio * ratio for ratio in ratios[way]) / 2),
            **({"first_fork_s": template_s} if way == "forked" else {}),
        }
        for way in WAYS
    ]


def trial_groups() -> list[dict[str, object]]:
    """Rows of results: trial groups of the demo, both ways."""
    command, cwd = (sys.executable, str(DEMO)), str(DEMO.parent)
    plan = Plan(command=command, cwd=cwd, out="", steps=200, warmup=20)
    shares: Mapping[str, list[float]] = {way: [] for way in WAYS}
    took: Mapping[str, list[float]] = {way: [] for way in WAYS}
    setups: Mapping[str, list[float]] = {way: [] for way in WAYS}
    with launcher("afresh", DEMO.parent) as afresh, launcher("forked", DEMO.parent) as forked:
        launches = dict(zip(WAYS, (afresh, forked), strict=True))
        (first,) = forked([plan], limit_s=300.0)
        started(forked, [plan], "forked")
        sizes = Sizes.of(first, machine.look())
        for k in range(TRIAL_GROUPS):
            for way in order(k):
                script = EditedScript(lambda: first, cwd=cwd)
                executor = Executor(launches[way], Plan(command=command, cwd=cwd, out=""), sizes, script=script)
                begun = time.perf_counter()
                (trial_group,) = executor.trial_groups(Design(arms=(Arm(), Arm())))
                took[way].append(time.perf_counter() - begun)
                setup_s = max(run.setup_s or 0.0 for run in trial_group.runs)
                setups[way].append(setup_s)
                shares[way].append(setup_s / took[way][-1])
    return [
        {
            "way": way,
            "trial_group_s": [round(seconds, 2) for seconds in took[way]],
            "start_s": [round(seconds, 2) for seconds in setups[way]],
            "median_share": statistics.median(shares[way]),
            "steps": sizes.steps,
            "warmup": sizes.warmup,
        }
        for way in WAYS
    ]


def claims(rows: Sequence[Mapping[str, Any]], demo: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """The figures for the docs."""
    made: list[dict[str, object]] = []
    names = {"afresh": "started afresh", "forked": "forked"}
    for row in rows:
        what = f"{row['script']}, {names[row['way']]}"
        seconds = row["setup_s"]
        made.append(
            {
                "claim": f"{what}: to the first step (median, range of {len(seconds)})",
                "mid": row["median_setup_s"],
                "low": min(seconds),
                "high": max(seconds),
                "unit": " s",
            }
        )
        made.append(
            {
                "claim": f"{what}: median steps of equal processes differ by",
                "mid": 100 * row["cv"],
                "unit": "%",
            }
        )
    for row in demo:
        made.append(
            {
                "claim": f"part of a trial group of the demo that is start-up, {names[row['way']]}",
                "mid": 100 * row["median_share"],
                "unit": "%",
            }
        )
    return made


def main() -> None:
    load = [round(number, 1) for number in os.getloadavg()]
    rows: list[dict[str, object]] = []
    for name in SCRIPTS:
        with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
            rows += spread(name, Path(folder))
    demo = trial_groups()
    load_after = [round(number, 1) for number in os.getloadavg()]
    path = results_file.write(
        "starting", load=load, load_after=load_after, results=rows, demo=demo, claims=claims(rows, demo)
    )
    print(json.dumps([rows, demo], indent=1), path.name)


if __name__ == "__main__":
    main()
