"""A world without processes: plans are answered by a model of a script, a machine and its noise."""

import hashlib
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from hotlap.errors import UserError
from hotlap.experiment import EditedScript, Stack
from hotlap.record import (
    CallSite,
    CpuUse,
    LoaderFacts,
    Machine,
    OptimizerFacts,
    Phase,
    Plan,
    Run,
    Status,
    Study,
    Update,
)
from hotlap.record.order import rounds
from hotlap.source import Patched
from hotlap.tune import Options

MACHINE = Machine(
    system="Linux",
    processor="a processor",
    num_cores=2,
    usable_cores=2.0,
    memory_bytes=16 << 30,
    available_bytes=12 << 30,
    shm_bytes=1 << 30,
    huge_pages="never",
    libc="glibc 2.36",
    cpu_flags=("avx2",),
)

# Page faults take a sixth of each step.
CPU = CpuUse(usable_cores=2.0, main=1.0, others=0.0, page_faults=100_000.0, page_fault_s=1e-5 / 6)

PHASES = {Phase.INPUT: 0.60, Phase.FORWARD: 0.12, Phase.BACKWARD: 0.12, Phase.OPTIMIZER: 0.12, Phase.OTHER: 0.04}


@dataclass
class World:
    """`costs`: lever name -> what it multiplies the step by. `harms`: lever name -> what it adds to each loss."""

    path: str
    sha256: str
    costs: dict[str, float] = field(default_factory=dict)
    harms: dict[str, float] = field(default_factory=dict)
    fails: set[str] = field(default_factory=set)
    fails_at_end: set[str] = field(default_factory=set)
    """Names of levers under which the training fails behind its last step."""
    tail_s: float = 0.0
    """What the script takes behind its last step."""
    one_time_s: dict[str, float] = field(default_factory=dict)
    """Lever name -> seconds that its first step takes longer."""
    one_at_a_time: bool = False
    """What the processes of a trial group cost once they pay on the same cores: each waits for all of them."""
    together: dict[frozenset[str], float] = field(default_factory=dict)
    """Names of levers -> what they multiply the step by where all of them are at work, beside their own costs."""
    validation_s: float = 0.0
    """Of each epoch; only runs for the gate go so far."""
    length: int | None = None
    """Steps that the script makes; None: as many as are wanted."""
    parts: tuple[int, str] | None = None
    """Steps of its first part, and the place where it trains again."""
    process_sd: float = 0.01
    block_sd: float = 0.01
    seed: int = 0
    step_s: float = 0.003
    start_s: float = 4.0
    clock: float = 0.0
    num_runs: int = 0
    _paying: int = 1
    plans: list[Plan] = field(default_factory=list)
    loader: dict[str, Any] = field(default_factory=dict)
    """What is other in what the probe says of the loader."""

    def __call__(self, plans: Sequence[Plan], *, limit_s: float) -> list[Run]:
        """The launcher."""
        self.plans += plans
        num_paying = sum(any(spec["name"] in self.one_time_s for spec in plan.always) for plan in plans)
        self._paying = max(1, num_paying) if self.one_at_a_time else 1
        runs = [self.run(plan) for plan in plans]
        self.clock += self.start_s + sum(sum(run.step_s) + sum(run.first_steps_s) for run in runs)
        self.clock += sum(run.whole_s - self.start_s for run in runs if run.whole_s is not None)
        return runs

    @property
    def nodes(self) -> int:
        """One machine."""
        return 1

    def many(self, trial_groups: Sequence[Sequence[Plan]], *, limits_s: Sequence[float]) -> list[list[Run]]:
        """At the same time, each on a node of its own."""
        begun, ends, found = self.clock, [], []
        for trial_group, limit_s in zip(trial_groups, limits_s, strict=True):
            self.clock = begun
            alone = any(plan.turn is None for plan in trial_group)
            parts = [[plan] for plan in trial_group] if alone else [trial_group]
            found.append([run for part in parts for run in self(part, limit_s=limit_s)])
            ends.append(self.clock)
        self.clock = max(ends)
        return found

    def now(self) -> float:
        """Time passes only where runs take it."""
        return self.clock

    def run(self, plan: Plan) -> Run:
        """What the probe would have recorded."""
        self.num_runs += 1
        rng = random.Random(f"{self.seed}-{self.num_runs}")
        always = {str(spec["name"]) for spec in plan.always}
        if (always | {str(spec["name"]) for arm in plan.arms for spec in arm}) & self.fails:
            return Run(status=Status.CRASHED, error="RuntimeError: planted", arms=plan.arms, always=plan.always)
        if plan.replaced:
            always |= self.written_levers(plan)
        level = math.exp(rng.gauss(0, self.process_sd))
        if plan.only_levers:
            return self._whole(plan, always, level)
        wanted = plan.steps * len(plan.arms)
        total = wanted if self.length is None else min(wanted, self.length - plan.warmup)
        arms, blocks = _blocks(plan, total)
        block_noise = {block: math.exp(rng.gauss(0, self.block_sd)) for block in set(blocks)}
        costs = [self._cost(plan, always, arm) for arm in range(len(plan.arms))]
        steps = [
            self.step_s * level * block_noise[block] * costs[arm] * rng.lognormvariate(0, 0.02)
            for arm, block in zip(arms, blocks, strict=True)
        ]
        first = self._first_steps(plan, always, level)
        run = Run(
            status=Status.COMPLETE if total == wanted else Status.ENDED,
            device="cpu",
            num_threads=2,
            seed=(plan.seed or 0) + plan.reseed,
            reseed=plan.reseed,
            perturbation=plan.perturbation,
            order_seed=plan.order_seed,
            arms=plan.arms,
            always=plan.always,
            setup_s=self.start_s + sum(first[:1]),
            first_steps_s=first,
            planned_steps=self.length if self.parts is None else self.parts[0],
            trains_again=None if self.parts is None else self.parts[1],
            step_s=tuple(steps),
            phase_s=_phases(steps),
            arm=tuple(arms),
            block=tuple(blocks),
            step_index=tuple(range(plan.warmup, plan.warmup + total)),
            epoch_starts=(0, total // 2) if plan.evidence else (),
            validation_s=self.validation_s if plan.evidence else 0.0,
            num_validations=1 if plan.evidence and self.validation_s else 0,
            loss=tuple(self._losses(plan, always, total)),
            num_samples=(64,) * total,
            num_updates=(1,) * total,
            loaders=(replace(LOADER, **self.loader),),
            optimizers=(ADAM,),
            call_sites=self._sites(),
            sources={self.path: self.sha256},
            rss_peak_bytes=300 << 20,
            cpu=CPU,
        )
        return _with_evidence(run, plan) if plan.evidence else run

    def _whole(self, plan: Plan, always: set[str], level: float) -> Run:
        """A training for real, to its end."""
        assert self.length is not None
        if always & self.fails_at_end:
            return Run(status=Status.CRASHED, error="RuntimeError: planted at its end")
        steps_s = self.length * self.step_s * level * self._cost(plan, always, 0)
        once_s = 0.5 * level + sum(self.one_time_s.get(name, 0.0) for name in always)
        return Run(status=Status.ENDED, whole_s=self.start_s + steps_s + once_s + self.tail_s)

    def written_levers(self, plan: Plan) -> set[str]:
        """What the patched text brings, read off it."""
        text = plan.replaced[self.path]
        marks = {"cached(": "cached-dataset", "fused=True": "fused-optimizer", "set_num_threads": "threads"}
        marks |= {"resident(": "device-resident"}
        return {lever for mark, lever in marks.items() if mark in text}

    def _cost(self, plan: Plan, always: set[str], arm: int) -> float:
        active = always | {str(spec["name"]) for spec in plan.arms[arm]}
        cost = math.prod(self.costs.get(name, 1.0) for name in active)
        cost *= math.prod(factor for names, factor in self.together.items() if names <= active)
        return 0.4 if plan.free_input else cost

    def _first_steps(self, plan: Plan, always: set[str], level: float) -> tuple[float, ...]:
        steps = [self.step_s * level * self._cost(plan, always, 0)] * plan.warmup
        if steps:
            steps[0] += 0.5 * level + self._paying * sum(self.one_time_s.get(name, 0.0) for name in always)
        return tuple(steps)

    def _losses(self, plan: Plan, always: set[str], total: int) -> list[float]:
        rng = random.Random(f"losses-{self.seed}-{plan.reseed}")
        perturbation = random.Random(plan.perturbation)
        rounding = 1e-6 if plan.perturbation or always & {"fused-optimizer", "threads"} else 0.0
        harm = sum(self.harms.get(name, 0.0) for name in always)
        return [
            2.0 * math.exp(-k / 100) + 0.2 + rng.gauss(0, 0.01) + rounding * perturbation.gauss(0, 1) + harm
            for k in range(total)
        ]

    def _sites(self) -> tuple[CallSite, ...]:
        return tuple(
            CallSite(
                calls=calls,
                path=self.path,
                sha256=self.sha256,
                line=line,
                end_line=line,
                col=col,
                end_col=end_col,
                detail={key: 0},
            )
            for calls, line, col, end_col, key in (
                ("torch.utils.data.DataLoader", 2, 9, 26, "loader"),
                ("torch.optim.Adam", 3, 7, 20, "optimizer"),
            )
        )


class AnyScript(EditedScript):
    """A script into which every lever can be written but `barred`: its text names them."""

    def __init__(self, barred: str = "") -> None:
        super().__init__(lambda: Run(status=Status.COMPLETE), cwd="/")
        self._barred = barred

    def patched(self, stack: Stack) -> Patched:
        """The names, in the script's place."""
        names = [str(spec["name"]) for spec in stack]
        if self._barred in names:
            raise UserError("The call stands in a lambda.")
        return Patched(diff="", texts={"/train.py": " ".join(names)} if names else {}, changes=())


SCRIPT = "import torch\nloader = DataLoader(items)\nadam = Adam(weights)\n"

LOADER = LoaderFacts(
    id=0,
    dataset="Digits",
    num_items=1000,
    num_workers=0,
    batch_size=64,
    default_collate=True,
    pin_memory=False,
    trained_on=True,
    deterministic=True,
    why_not=None,
    item_s=3e-5,
    item_bytes=3200,
)

ADAM = OptimizerFacts(
    id=0,
    name="torch.optim.Adam",
    fused=None,
    foreach=None,
    has_fused=True,
    num_parameters=4,
    num_elements=100_000,
    device="cpu",
    dtypes=("float32",),
    all_dense=True,
    not_dense=None,
    closure=False,
)


def _blocks(plan: Plan, total: int) -> tuple[list[int], list[int]]:
    size = plan.turn.steps if plan.turn else plan.block
    blocks = [k // size for k in range(total)]
    turns = list(islice(chain.from_iterable(rounds(len(plan.arms), plan.order_seed)), total // size + 1))
    return [turns[block] for block in blocks], blocks


def _phases(steps: Sequence[float]) -> dict[Phase, tuple[float, ...] | None]:
    measured: dict[Phase, tuple[float, ...] | None] = {
        phase: tuple(share * step for step in steps) for phase, share in PHASES.items()
    }
    return {phase: measured.get(phase) for phase in Phase}


def _with_evidence(run: Run, plan: Plan) -> Run:
    digests = tuple(hashlib.md5(f"{run.seed}-{k}".encode()).hexdigest() for k in run.step_index)
    return replace(
        run,
        batch_digest=digests,
        rng_digest=digests,
        settings_digest=("same",) * len(digests),
        learning_rates=((0.001,),) * len(digests),
        updates=tuple(Update(step=k, norms=(0.1, 0.01), changed=(1.0, 1.0)) for k in (0, 1, 2, 4, 8)),
    )


def options_for(path: str, **changes: object) -> Options:
    """A study of `path` in five minutes."""
    options = Options(command=("python", path), cwd=path.rpartition("/")[0], title="train.py")
    return replace(options, **changes)  # type: ignore[arg-type]


def new_study(options: Options) -> Study:
    """Nothing known yet."""
    return Study(command=options.command, cwd=options.cwd, created="2026-01-01T00:00:00+00:00", key="k")


class Silent:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.studies: list[Study] = []
        self.parts: list[str] = []
        self.done: list[str] = []

    def doing(self, text: str) -> None:
        """Keep it."""
        self.done.append(text)

    def changed(self, study: Study, part: str) -> None:
        """Keep it."""
        self.studies.append(study)
        self.parts.append(part)
