"""Does a study over eight nodes agree with that of one, and how much sooner is it over, with and without lost jobs?

    python benchmarks/ranks/nodes.py [SEEDS]

Everything of hotlap is at work but the launcher on the nodes: jobs are placed, looked for and placed again as on any
scheduler, whose clock is a number here, and what they bring is made up as in the tests of the search
(`tests/unit/tune/world.py`). 30% of the jobs are preempted somewhere within their time.
"""

import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from tests.unit.tune.world import MACHINE, SCRIPT, Silent, World, new_study, options_for  # noqa: E402

import results_file  # noqa: E402 - it stands one folder above
from hotlap.launch.placed import BEGUN, BROUGHT, ORDER, Brought, Order, Placed, State  # noqa: E402
from hotlap.record import Plan, Run, Study, load, save  # noqa: E402
from hotlap.tune import StudyLog, tuned  # noqa: E402

SEEDS = 10
LOST = 0.3
NODES = 8
SECONDS = 0.1
"""Of a step: most of a heat is what it is for, not its start."""
# What each lever multiplies the step by; nothing else changes it.
COSTS: tuple[dict[str, float], ...] = (
    {},
    {"cached-dataset": 0.4},
    {"cached-dataset": 0.4, "fused-optimizer": 0.9, "threads": 0.95},
    {"fused-optimizer": 0.93, "cached-dataset": 0.8},
)


@dataclass
class Job:
    """`ends`: None while it waits for a node."""

    folder: Path
    ends: float | None = None
    lost: bool = False
    brought: Brought | None = None


class Scheduler:
    """A cluster of `nodes` (a Backend), and its clock."""

    name, one_kind = "stand-in", ""

    def __init__(self, world: World, nodes: int, *, lost: float, seed: int) -> None:
        self._world, self._nodes, self._lost = world, nodes, lost
        self._random = random.Random(seed)
        self._jobs: list[Job] = []
        self.clock = 0.0

    @property
    def num_lost(self) -> int:
        """Jobs."""
        return sum(job.lost for job in self._jobs)

    def submit(self, command: Sequence[str], folder: Path, *, limit_s: float) -> str:
        """At the end of the queue."""
        self._jobs.append(Job(folder))
        self._begin()
        return str(len(self._jobs) - 1)

    def state(self, job: str) -> tuple[State, str]:
        """As it is by now."""
        found = self._jobs[int(job)]
        if found.ends is None:
            return State.WAITING, ""
        return (State.RUNNING if self.clock < found.ends else State.LOST if found.lost else State.OVER), ""

    def cancel(self, job: str) -> None:
        """It does not come to pass here."""

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.clock += seconds
        for job in self._jobs:
            if job.brought is not None and job.ends is not None and self.clock >= job.ends:
                save(job.brought, job.folder / BROUGHT)
                job.brought = None
        self._begin()

    def _begin(self) -> None:
        running = sum(job.ends is not None and self.clock < job.ends for job in self._jobs)
        for job in [job for job in self._jobs if job.ends is None][: self._nodes - running]:
            (job.folder / BEGUN).touch()
            begun = self._world.clock
            (runs,) = self._world.many([load(job.folder / ORDER, Order).plans], limit_s=0.0)
            job.lost = self._random.random() < self._lost
            job.brought = None if job.lost else Brought(machine=MACHINE, runs=tuple(runs))
            job.ends = self.clock + (self._world.clock - begun) * (self._random.random() if job.lost else 1.0)


class Counting(Placed):
    """Counts heats whose runs are not those that were asked for, each once."""

    wrong = 0

    def many(self, heats: Sequence[Sequence[Plan]], *, limit_s: float) -> list[list[Run]]:
        """As it is."""
        found = super().many(heats, limit_s=limit_s)
        asked = [[(plan.order_seed, plan.reseed, plan.always) for plan in plans] for plans in heats]
        self.wrong += asked != [[(run.order_seed, run.reseed, run.always) for run in runs] for runs in found]
        return found


def study(costs: dict[str, float], *, nodes: int, lost: float, seed: int) -> tuple[Study, Scheduler, int]:
    """One, and how many of its trials count a heat twice or have lost one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(SCRIPT)
        digest = sha256(path.read_bytes()).hexdigest()
        world = World(path=str(path), sha256=digest, costs=costs, step_s=SECONDS, seed=seed)
        cluster, order = Scheduler(world, nodes, lost=lost, seed=seed), Order(folders=(), timeout_s=60, memory_bytes=0)
        options = replace(options_for(str(path)), budget_s=7200.0)
        with Counting(
            cluster, Path(folder) / "jobs", nodes=nodes, order=order, now=lambda: cluster.clock, sleep=cluster.sleep
        ) as runs:
            log = StudyLog(new_study(options), options, MACHINE, runs, Silent(), now=runs.now)
            found = tuned(log)
        seeds = [trial.order_seeds for trial in found.trials if trial.failure is None]
        twice = sum(len(one) != len(set(one)) for one in seeds)
        failed = sum(trial.failure is not None for trial in found.trials)
        return found, cluster, runs.wrong + twice + failed


def accepted(found: Study) -> list[str]:
    """Names of levers."""
    assert found.result is not None
    return sorted(str(spec["name"]) for spec in found.result.levers)


def compared(costs: dict[str, float], seed: int) -> dict[str, Any]:
    """One node, eight, and eight of which jobs are lost."""
    one, eight, less = (
        study(costs, nodes=nodes, lost=lost, seed=seed) for nodes, lost in ((1, 0.0), (NODES, 0.0), (NODES, LOST))
    )
    taken = [accepted(found) for found, _, _ in (one, eight, less)]
    return {
        "costs": costs, "seed": seed, "accepted": taken,
        "agrees": taken[0] == taken[1], "agrees_lost": taken[0] == taken[2],
        "one_s": one[1].clock, "eight_s": eight[1].clock, "lost_s": less[1].clock,
        "jobs_lost": less[1].num_lost, "wrong": eight[2] + less[2],
    }  # fmt: skip


def main() -> None:
    """All studies."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    rows = [compared(costs, seed) for costs in COSTS for seed in range(number)]
    lost = sum(row["jobs_lost"] for row in rows)

    def number_of(key: str) -> dict[str, object]:
        return {"mid": sum(row[key] for row in rows), "unit": f" of {len(rows)}"}

    def beside_one(key: str) -> float:
        return median(row[key] / row["one_s"] for row in rows)

    claims = [
        {"claim": "studies over eight nodes that accept what one node accepts", **number_of("agrees")},
        {"claim": "the same, 30% of jobs preempted", **number_of("agrees_lost")},
        {"claim": f"heats lost or counted twice ({lost} jobs preempted)", "mid": sum(row["wrong"] for row in rows)},
        {"claim": "time of eight nodes over that of one (median)", "mid": beside_one("eight_s")},
        {"claim": "the same, 30% of jobs preempted", "mid": beside_one("lost_s")},
    ]
    print(claims)
    results_file.write("ranks_nodes", claims=claims, results=rows)


if __name__ == "__main__":
    main()
