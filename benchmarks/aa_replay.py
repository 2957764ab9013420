"""How often does a whole search claim a gain where no lever brings any? Two hundred studies, on recorded noise.

`--record TRIAL_GROUPS` runs trial groups of four equal processes that take turns, and processes alone in which blocks
take turns, as trials do, and keeps how long each turn and each block took. Then whole studies (all levers, rounds,
stacks, confirmation, the default budgets) are made in the world of tests/unit/tune/world.py, in which no lever changes
anything and each trial group takes as long as one that was recorded, picked at random; and as many in which one lever
makes steps shorter and the others, which bring nothing, must not be accepted beside it. Gains so small that five
minutes are to show them just yet are looked for on the noise of a quiet hour. `python benchmarks/aa_replay.py [STUDIES]
[--record TRIAL_GROUPS [--quiet]]`.
"""

import argparse
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import results_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.unit.tune.world import MACHINE, World, new_study, options_for
from tests.unit.tune.world import SCRIPT as OF_THE_WORLD

from aa import Silent, launched, new_log
from hotlap.experiment import Arm, Design, Sizes
from hotlap.experiment.table import blocks
from hotlap.record import Plan, Run, Verdict
from hotlap.search import StudyLog
from hotlap.tune import tuned
from hotlap.tune.first_look import first_look

STUDIES = 200
TOGETHER = 4

GAINS = {"cached-dataset": 0.6}
"""A lever with a true gain, for the studies that have one, and what it multiplies the step by."""

SMALL = {"step": {"fused-optimizer": 1 / 1.03}, "loader": {"cached-dataset": 1 / 1.06}}
"""A lever of each kind with a gain as small as `hotlap tune` is to find in five minutes, in eight studies of ten."""

Turns = list[float]
"""Mean seconds of a step in each turn, or block, of one process."""

BUSY, QUIET = "noise", "noise_quiet"
"""What was recorded, by the names of its files."""


class Noise(NamedTuple):
    """Of one hour."""

    trial_groups: Sequence[Sequence[Turns]]
    """Of processes that took turns."""
    alone: Sequence[Turns]
    """Of single ones."""


@dataclass
class Replayed(World):
    """A world in which times are those that were recorded; `trial_groups`: of processes that took turns, `alone`: of
    single ones. Relative to the median."""

    trial_groups: Sequence[Sequence[Turns]] = ()
    alone: Sequence[Turns] = ()
    chance: random.Random = field(default_factory=random.Random)
    _next: list[Turns] = field(default_factory=list)

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """The launcher."""
        picked = self.chance.choice(self.trial_groups) if len(plans) > 1 else [self.chance.choice(self.alone)]
        self._next = self.chance.sample(list(picked), len(plans))
        return super().__call__(plans, limit_s=limit_s)

    def run(self, plan: Plan) -> Run:
        """As the world has it, but for how long its turns took."""
        run, turns = super().run(plan), self._next.pop()
        levels = [turns[block % len(turns)] for block in run.block]
        return replace(
            run,
            step_s=_times(run.step_s, levels),
            phase_s={phase: None if told is None else _times(told, levels) for phase, told in run.phase_s.items()},
        )


def _times(seconds: Sequence[float], levels: Sequence[float]) -> tuple[float, ...]:
    return tuple(one * level for one, level in zip(seconds, levels, strict=True))


def record(num_trial_groups: int, name: str) -> None:
    """Trial groups of equal processes, and processes alone; written after each."""
    trial_groups: list[list[Turns]] = []
    alone: list[Turns] = []
    with launched() as (launcher, options):
        log = new_log(launcher, options)
        run = first_look(log, options.plan)
        log.change("baseline", baseline=(run,))
        executor = log.executor(Sizes.of(run, log.machine))
        for k in range(num_trial_groups):
            trial_group = [_turns(run) for run in executor.trial_groups(Design(arms=(Arm(),) * TOGETHER))[0].runs]
            if not all(trial_group):
                continue  # one of the processes failed
            trial_groups.append(trial_group)
            alone += [_turns(run) for run in executor.trial_groups(Design(arms=(Arm(), Arm()), switched=True))[0].runs]
            results_file.write(name, heats=trial_groups, alone=[turns for turns in alone if turns])
            means = [f"{1e3 * fmean(turns):.3f} ms" for turns in trial_group]
            print(f"{k + 1} of {num_trial_groups}: {means}", flush=True)


def _turns(run: Run) -> Turns:
    return [float(f"{block.step_s.mean():.4g}") for block in blocks(run) if block.step_s.size]


def recorded(name: str) -> Noise | None:
    """Relative to the usual step; None where nothing was."""
    path = results_file.RESULTS / f"{name}-{results_file.device_name()}.json"
    if not path.exists():
        return None
    known = json.loads(path.read_text())
    usual = median(seconds for trial_group in known["heats"] for turns in trial_group for seconds in turns)
    trial_groups = [[[s / usual for s in turns] for turns in trial_group] for trial_group in known["heats"]]
    return Noise(trial_groups, [[s / usual for s in turns] for turns in known["alone"]])


def replay(number: int) -> None:
    """All studies on what was recorded."""
    noise, quiet = recorded(BUSY), recorded(QUIET)
    if noise is None:
        sys.exit("No noise of this machine was recorded yet; add --record 24 (six minutes).")
    found: list[dict[str, object]] = []
    beside: list[dict[str, object]] = []
    small: dict[str, list[dict[str, object]]] = {kind: [] for kind in SMALL}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(OF_THE_WORLD)
        for seed in range(number):
            study = _study(script, noise, seed)
            found.append(study)
            beside.append(_study(script, noise, seed, costs=GAINS))
            for kind, costs in SMALL.items() if quiet is not None else ():
                small[kind].append(_study(script, quiet, seed, costs=costs, long_budget_s=None))
            if study["claimed"] or not (seed + 1) % 20:
                print(seed + 1, study, flush=True)
    rode, true = (sum(bool(study[name]) for study in beside) for name in ("claimed", "gained"))
    claimed, passed = (sum(bool(study[name]) for study in found) for name in ("claimed", "passed"))
    results_file.write(
        "aa_replay",
        results=found,
        beside_a_gain=beside,
        small=small,
        claims=[
            {"claim": f"whole studies without any true gain (of {number}, replayed) that claimed one", "mid": claimed},
            {"claim": "the same, in which one trial passed before the confirmation", "mid": passed},
            {
                "claim": f"studies with one true gain of {1 / min(GAINS.values()):.2f}x (of {number}) that found it",
                "mid": true,
            },
            {"claim": "the same, in which a lever that brings nothing was handed over beside it", "mid": rode},
            *(
                {
                    "claim": f"studies of five minutes with one true gain of {1 / min(SMALL[kind].values()):.2f}x by a "
                    f"{kind} lever (of {number}) that found it",
                    "mid": sum(bool(study["gained"]) for study in made),
                }
                for kind, made in small.items()
                if made
            ),
            {"claim": "trials in a study without any gain", "mid": fmean(int(str(study["trials"])) for study in found)},
            {"claim": "trial groups of four processes that were recorded for it", "mid": len(noise.trial_groups)},
        ],
    )


def _study(
    script: Path,
    noise: Noise,
    seed: int,
    *,
    costs: dict[str, float] | None = None,
    long_budget_s: float | None = 540.0,
) -> dict[str, object]:
    """`costs`: levers with a true gain; None: there is none."""
    costs = costs or {}
    digest = hashlib.sha256(script.read_bytes()).hexdigest()
    world = Replayed(
        path=str(script),
        sha256=digest,
        seed=seed,
        costs=costs,
        process_sd=0.0,
        block_sd=0.0,
        trial_groups=noise.trial_groups,
        alone=noise.alone,
        chance=random.Random(seed),
    )
    options = options_for(str(script), long_budget_s=long_budget_s)
    study = tuned(StudyLog(new_study(options), options, MACHINE, world, Silent(), now=world.now))
    trials = [trial for trial in study.trials if trial.kind in ("lever", "screening") and trial.scope != "none"]
    accepted = {str(spec["name"]) for spec in study.result.levers} if study.result is not None else set()
    return {
        "claimed": bool(accepted - costs.keys()),
        "gained": bool(accepted & costs.keys()),
        "passed": any(trial.accepted for trial in trials),
        "harmed": any(trial.verdict is Verdict.HARMED for trial in trials),
        "trials": len(trials),
        "elapsed_s": round(world.clock, 1),
        "smallest_gain": {noise.scope: noise.smallest_gain for noise in study.noise},
    }


def main() -> None:
    """Record where asked, then replay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="?", type=int, default=STUDIES)
    parser.add_argument("--record", type=int, metavar="TRIAL_GROUPS", default=0)
    parser.add_argument("--quiet", action="store_true", help="what is recorded is a quiet hour")
    asked = parser.parse_args()
    if asked.record:
        record(asked.record, QUIET if asked.quiet else BUSY)
    replay(asked.studies)


if __name__ == "__main__":
    main()
