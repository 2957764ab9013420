"""No study ends with more than a tenth of its budget unspent while something is untried, on slow machines as well."""

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hotlap.errors import NoSteps
from hotlap.record import Plan, Run, Status, Study
from hotlap.report.outcome import conclusion
from hotlap.tune import StudyLog, tuned
from tests.unit.tune.world import MACHINE, SCRIPT, Silent, World, new_study, options_for

NO_STEPS: dict[str, Any] = {"step_s": (), "arm": (), "block": (), "phase_s": {}}


@dataclass
class Crowded(World):
    """Runs are as slow as the machine is when they begin, end at their limit, and look at items for the gate alone."""

    slow: tuple[float, ...] = (1.0,)
    """How many times as long everything takes, in each minute; the last one stays."""

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        begun, as_ever = self.clock, (self.start_s, self.step_s)
        now = self.slow[min(int(begun // 60), len(self.slow) - 1)]
        self.start_s, self.step_s = (now * seconds for seconds in as_ever)
        runs = super().__call__(plans, limit_s=limit_s)
        self.start_s, self.step_s = as_ever
        if self.clock - begun <= limit_s:
            return runs
        self.clock = begun + limit_s
        return [replace(run, status=Status.LAPSED, error="its time was over", **NO_STEPS) for run in runs]

    def run(self, plan: Plan) -> Run:
        if plan.enough_s is not None:
            plan = replace(plan, steps=max(20, min(plan.steps, int(plan.enough_s / self.step_s) - plan.warmup)))
        run = super().run(plan)
        unseen: dict[str, Any] = {} if plan.evidence else {"deterministic": None, "item_s": None, "item_bytes": None}
        return replace(run, loaders=tuple(replace(one, **unseen) for one in run.loaders))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def drawn(script: Path, seed: int) -> tuple[Crowded, float]:
    """A script and a machine, and a budget."""
    rng = random.Random(seed)
    costs = {"cached-dataset": rng.choice([0.5, 1.0]), "native-step": rng.choice([0.6, 1.1]), "malloc": 0.9}
    slow = [rng.choice([1.0, 1.5, 3.0]) for _ in range(rng.choice([1, 1, 4]))]
    world = Crowded(
        path=str(script),
        sha256=hashlib.sha256(script.read_bytes()).hexdigest(),
        costs=costs,
        start_s=rng.choice([0.3, 1.5, 4.0, 10.0]),
        step_s=rng.choice([0.001, 0.01, 0.05, 0.2, 0.7]),
        process_sd=rng.choice([0.01, 0.05, 0.15]),
        seed=seed,
        slow=tuple(slow),
    )
    return world, rng.choice([30.0, 60.0, 90.0, 120.0, 200.0, 300.0])


def tune(world: Crowded, budget_s: float) -> Study | None:
    options = options_for(world.path, budget_s=budget_s)
    try:
        return tuned(StudyLog(new_study(options), options, MACHINE, world, Silent(), now=world.now))
    except NoSteps:  # the first look had too little time
        return None


def smallest_trial_group_s(world: Crowded) -> float:
    """The start of a pair, 15 long steps of each or 47 short ones, and the end: all that a ratio takes."""
    num_steps = 47 if world.step_s < 0.015 else 23 if world.step_s < 0.1 else 15
    return max(world.slow) * (world.start_s + 1.0 + 2 * num_steps * world.step_s) + 1.0


def untried(study: Study) -> bool:
    return conclusion(study).title == "Nothing tried" or any("could be tried" in one for one in study.warnings)


def test_a_budget_is_spent_where_something_is_untried(script: Path) -> None:
    early = 0
    for seed in range(100):
        world, budget_s = drawn(script, seed)
        study = tune(world, budget_s)
        if study is None:
            continue
        left_s = budget_s - world.clock
        early += untried(study)
        assert world.clock >= 0.9 * budget_s or not untried(study) or left_s < smallest_trial_group_s(world), seed
    assert early > 30


def test_the_budget_that_a_study_asks_for_is_enough(script: Path) -> None:
    """On a machine that stays as it is, where equal processes differ little."""
    asked = 0
    for seed in range(100):
        world, budget_s = drawn(script, seed)
        gains = min(world.costs.values()) < 0.9
        if not gains or len(set(world.slow)) > 1:
            continue
        world.process_sd = 0.01
        study = tune(world, budget_s)
        needs = re.search(r"--budget (?:to )?(\d+)m", study.result.why) if study is not None and study.result else None
        if needs:
            asked += 1
            again, _ = drawn(script, seed)
            again.process_sd = 0.01
            enough = tune(again, 60.0 * int(needs[1]))
            assert enough is not None and enough.result is not None and enough.result.levers, seed
    assert asked > 10
