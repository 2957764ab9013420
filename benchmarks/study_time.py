"""Where do the seconds of a study go? `hotlap tune` on a script, each of its trial groups taken apart.

`python benchmarks/study_time.py [SCRIPT [LEVERS [BUDGET]]]`; without a script it is the one whose data set computes
its items (tests/e2e/scripts/slow_items.py), with the one lever that it is for.
"""

import contextlib
import io
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import results_file
from hotlap import cli
from hotlap.cli.workbench import Workbench
from hotlap.launch import Launcher
from hotlap.record import Plan, Run, Study, load

SCRIPT = Path(__file__).parents[1] / "tests" / "e2e" / "scripts" / "slow_items.py"
LEVERS = "cached-dataset"
BUDGET = "300s"

TrialGroup = dict[str, Any]


@contextlib.contextmanager
def trial_groups_noted() -> Iterator[list[TrialGroup]]:
    """Each call of the launcher, with what the study was doing."""
    trial_groups: list[TrialGroup] = []
    doing = [""]
    call, told = Launcher.__call__, Workbench.doing

    def timed(self: Launcher, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        begun = time.monotonic()
        runs = call(self, plans, limit_s=limit_s)
        trial_groups.append(taken_apart(doing[0], plans, runs, wall_s=time.monotonic() - begun))
        return runs

    def noted(self: Workbench, text: str) -> None:
        doing[0] = text.partition(" (")[0]
        told(self, text)

    Launcher.__call__, Workbench.doing = timed, noted  # type: ignore[method-assign]
    try:
        yield trial_groups
    finally:
        Launcher.__call__, Workbench.doing = call, told  # type: ignore[method-assign]


def taken_apart(doing: str, plans: Sequence[Plan], runs: Sequence[Run], *, wall_s: float) -> TrialGroup:
    """Seconds of one trial group: its processes start side by side, then one steps at a time."""
    start_s = max((run.setup_s or 0.0 for run in runs), default=0.0)
    # The first step holds the start of the process, whether it is recorded or not.
    warm_s = sum(sum(run.first_steps_s[1:]) for run in runs)
    measured_s = sum(sum(run.step_s[0 if run.first_steps_s else 1 :]) for run in runs)
    return {
        "doing": doing,
        "processes": len(plans),
        "steps": sum(len(run.step_s) for run in runs),
        "start_s": start_s,
        "warm_up_s": warm_s,
        "measured_s": measured_s,
        "rest_s": wall_s - start_s - warm_s - measured_s,
        "wall_s": wall_s,
    }


def by_stage(trial_groups: Sequence[TrialGroup]) -> list[TrialGroup]:
    """Trial groups of one kind summed up, in the order in which they came."""
    found: dict[str, TrialGroup] = {}
    for trial_group in trial_groups:
        row = found.setdefault(trial_group["doing"], {"stage": trial_group["doing"], "trial_groups": 0})
        row["trial_groups"] += 1
        for key, value in trial_group.items():
            if key != "doing":
                row[key] = row.get(key, 0) + value
    return [
        {key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()}
        for row in found.values()
    ]


def main() -> None:
    """One study; what it took, by stage."""
    words = dict(enumerate(sys.argv[1:]))
    script, names, budget = Path(words.get(0, SCRIPT)), words.get(1, LEVERS), words.get(2, BUDGET)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        shutil.copy(script, folder)
        begun = time.monotonic()
        with trial_groups_noted() as trial_groups, contextlib.redirect_stdout(io.StringIO()) as output:
            levers = [] if names == "all" else ["--levers", names]
            code = cli.main(["tune", "--budget", budget, *levers, script.name])
        wall_s = time.monotonic() - begun
        found = load(next(Path(folder).glob(".hotlap/*/study.json")), Study)
    print(output.getvalue()[-3000:])
    rows = by_stage(trial_groups)
    for row in rows:
        print(row)
    result = found.result
    path = results_file.write(
        f"study-time-{script.stem}",
        script=script.name,
        levers=names,
        code=code,
        wall_s=round(wall_s, 1),
        processes=sum(trial_group["processes"] for trial_group in trial_groups),
        outside_of_trial_groups_s=round(wall_s - sum(trial_group["wall_s"] for trial_group in trial_groups), 2),
        accepted=[str(spec["name"]) for spec in result.levers] if result is not None else [],
        results=rows,
    )
    print(f"{wall_s:.0f} s, {sum(trial_group['processes'] for trial_group in trial_groups)} processes; {path}")


if __name__ == "__main__":
    main()
