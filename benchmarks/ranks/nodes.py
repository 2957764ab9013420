"""Does a study over eight nodes agree with that of one, and how much sooner is it over, with and without lost jobs?

    python benchmarks/ranks/nodes.py [SEEDS]

Everything of hotlap is at work but the launcher on the nodes: jobs are placed, looked for and placed again as on any
scheduler, whose clock is a number here, and what they bring is made up as in the tests of the search
(`tests/unit/tune/world.py`). 30% of the jobs are preempted somewhere within their time.

Two kinds of studies, each told by itself. Small: two cores, where three levers or four are worth a trial. Large: a node
with a GPU, where eleven are, in seventeen settings, for a network over images, and equal processes differ three times
as much.
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

from tests.conformance.recorded import run_of  # noqa: E402
from tests.sample_runs import machine  # noqa: E402
from tests.unit.tune.world import MACHINE, SCRIPT, Silent, World, new_study, options_for  # noqa: E402

import results_file  # noqa: E402 - it stands one folder above
from hotlap.launch.placed import BEGUN, BROUGHT, ORDER, Brought, Order, Placed, State  # noqa: E402
from hotlap.record import Machine, Plan, Run, Study, load, save  # noqa: E402
from hotlap.tune import StudyLog, tuned  # noqa: E402

SEEDS = 10
LOST = 0.3
NODES = 8
SECONDS = 0.1
"""Of a step: most of a trial group is what it is for, not its start."""
# What each lever multiplies the step by; nothing else changes it.
SMALL: tuple[dict[str, float], ...] = (
    {},
    {"cached-dataset": 0.4},
    {"cached-dataset": 0.4, "fused-optimizer": 0.9, "threads": 0.95},
    {"fused-optimizer": 0.93, "cached-dataset": 0.8},
)
LARGE: tuple[dict[str, float], ...] = (
    {},
    {"workers": 0.6, "fused-optimizer": 0.93},
    {"bf16-autocast": 0.6, "channels-last": 0.85, "pin-and-overlap": 0.9},
    {"cached-dataset": 0.7, "tf32": 0.8, "compile": 0.85, "channels-last": 0.9},
)

GPU = "NVIDIA H100 80GB HBM3"
GPU_MACHINE = replace(
    machine(), gpus=(GPU,), num_cores=16, usable_cores=16.0, memory_bytes=128 << 30, available_bytes=100 << 30
)
IMAGES = """import torch
from torch import nn
from torch.utils.data import DataLoader

device = "cuda"
loader = DataLoader(items, batch_size=64)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.LazyLinear(10)).to(device)
optimizer = torch.optim.Adam(model.parameters())
for x, y in loader:
    out = model(x.to(device))
    loss = nn.functional.cross_entropy(out, y.to(device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
_FACTS = ("num_threads", "loaders", "optimizers", "call_sites", "switches", "shapes", "sources", "sightings")


@dataclass
class OnGpu(World):
    """Times are the world's, and what there is to change is a network for images on a GPU."""

    def run(self, plan: Plan) -> Run:
        """As the world has it, with those facts."""
        known = run_of(Path(self.path), num_threads=GPU_MACHINE.num_cores)
        on_gpu = tuple(replace(one, device="cuda:0") for one in known.optimizers)
        return replace(
            super().run(plan),
            **{name: getattr(known, name) for name in _FACTS} | {"optimizers": on_gpu},
            device=GPU,
            device_type="cuda",
            device_free_bytes=70 << 30,
            device_reserved_bytes=2 << 30,
        )

    def written_levers(self, plan: Plan) -> set[str]:
        """The plan says which."""
        return set()


@dataclass(frozen=True)
class Kind:
    """What studies of one kind have in common, and the levers that bring something in each."""

    world: type[World]
    machine: Machine
    text: str
    costs: tuple[dict[str, float], ...]
    settings: dict[str, float]
    """Of the world."""


KINDS = {
    "small": Kind(World, MACHINE, SCRIPT, SMALL, {}),
    # A process that imports torch and makes a context took 9 s on an H100.
    "large": Kind(OnGpu, GPU_MACHINE, IMAGES, LARGE, {"process_sd": 0.03, "block_sd": 0.03, "start_s": 9.0}),
}


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

    def __init__(self, world: World, machine: Machine, nodes: int, *, lost: float, seed: int) -> None:
        self._machine = machine
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
            return State.PLACED, ""
        return (State.PLACED if self.clock < found.ends else State.LOST if found.lost else State.OVER), ""

    def cancel(self, job: str) -> None:
        """Its node is free."""
        found = self._jobs[int(job)]
        found.ends, found.brought = min(self.clock, found.ends or self.clock), None
        self._begin()

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
            (runs,) = self._world.many([load(job.folder / ORDER, Order).plans], limits_s=[0.0])
            took_s, self._world.clock = self._world.clock - begun, begun
            job.lost = self._random.random() < self._lost
            job.brought = None if job.lost else Brought(machine=self._machine, runs=tuple(runs))
            job.ends = self.clock + took_s * (self._random.random() if job.lost else 1.0)


class Counting(Placed):
    """Counts trial groups whose runs are not those that were asked for, each once."""

    wrong = 0

    def many(self, trial_groups: Sequence[Sequence[Plan]], *, limits_s: Sequence[float]) -> list[list[Run]]:
        """As it is."""
        found = super().many(trial_groups, limits_s=limits_s)
        asked = [[(plan.order_seed, plan.reseed, plan.always) for plan in plans] for plans in trial_groups]
        self.wrong += asked != [[(run.order_seed, run.reseed, run.always) for run in runs] for runs in found]
        return found


def study(kind: Kind, costs: dict[str, float], *, nodes: int, lost: float, seed: int) -> tuple[Study, Scheduler, int]:
    """One, and how many of its trials count a trial group twice or have lost one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(kind.text)
        digest = sha256(path.read_bytes()).hexdigest()
        settings: dict[str, Any] = {"costs": costs, "step_s": SECONDS, "seed": seed, **kind.settings}
        world = kind.world(path=str(path), sha256=digest, **settings)
        cluster, order = (
            Scheduler(world, kind.machine, nodes, lost=lost, seed=seed),
            Order(folders=(), timeout_s=60, memory_bytes=0),
        )
        options = replace(options_for(str(path)), budget_s=7200.0)
        with Counting(
            cluster, Path(folder) / "jobs", nodes=nodes, order=order, now=lambda: cluster.clock, sleep=cluster.sleep
        ) as runs:
            log = StudyLog(new_study(options), options, kind.machine, runs, Silent(), now=runs.now)
            found = tuned(log)
        seeds = [trial.order_seeds for trial in found.trials if trial.failure is None]
        twice = sum(len(one) != len(set(one)) for one in seeds)
        failed = sum(trial.failure is not None for trial in found.trials)
        return found, cluster, runs.wrong + twice + failed


def accepted(found: Study) -> list[str]:
    """Names of levers."""
    assert found.result is not None
    return sorted(str(spec["name"]) for spec in found.result.levers)


def compared(name: str, costs: dict[str, float], seed: int) -> dict[str, Any]:
    """One node, eight, and eight of which jobs are lost."""
    one, eight, less = (
        study(KINDS[name], costs, nodes=nodes, lost=lost, seed=seed)
        for nodes, lost in ((1, 0.0), (NODES, 0.0), (NODES, LOST))
    )
    taken = [accepted(found) for found, _, _ in (one, eight, less)]
    return {
        "kind": name, "costs": costs, "seed": seed, "accepted": taken,
        "agrees": taken[0] == taken[1], "agrees_lost": taken[0] == taken[2],
        "one_s": one[1].clock, "eight_s": eight[1].clock, "lost_s": less[1].clock,
        "jobs_lost": less[1].num_lost, "wrong": eight[2] + less[2],
    }  # fmt: skip


def claims_of(name: str, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is told of the studies of one kind."""

    def number_of(key: str) -> dict[str, object]:
        return {"mid": sum(row[key] for row in rows), "unit": f" of {len(rows)}"}

    def beside_one(key: str) -> dict[str, float]:
        shares = sorted(row[key] / row["one_s"] for row in rows)
        return {"low": shares[0], "mid": median(shares), "high": shares[-1]}

    lost, one_s = sum(row["jobs_lost"] for row in rows), sorted(row["one_s"] for row in rows)
    return [
        {"claim": f"{name} studies over eight nodes that accept what one node accepts", **number_of("agrees")},
        {"claim": f"{name}: the same, 30% of jobs preempted", **number_of("agrees_lost")},
        {"claim": f"{name}: trial groups lost or counted twice ({lost} jobs preempted)",
         "mid": sum(row["wrong"] for row in rows)},
        {"claim": f"{name}: seconds of one node (median, extremes)",
         "low": one_s[0], "mid": median(one_s), "high": one_s[-1]},
        {"claim": f"{name}: time of eight nodes over that of one (median, extremes)", **beside_one("eight_s")},
        {"claim": f"{name}: the same, 30% of jobs preempted", **beside_one("lost_s")},
    ]  # fmt: skip


def main() -> None:
    """All studies."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    rows = [
        compared(name, costs, seed) for name, kind in KINDS.items() for costs in kind.costs for seed in range(number)
    ]
    claims = [claim for name in KINDS for claim in claims_of(name, [row for row in rows if row["kind"] == name])]
    print(claims)
    results_file.write("ranks_nodes", claims=claims, results=rows)


if __name__ == "__main__":
    main()
