"""Each lever's edit, made to a training on a GPU, run there and held to the gate: `make gpu`, benchmarks/gpu.sh.

What a lever brings is not asked, nor whether it is worth a trial there. All runs of a script are made at the same time,
as many as there are cores.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
import torch

from hotlap import gate, levers, machine
from hotlap.launch import Launcher
from hotlap.levers import Lever, Numerics
from hotlap.record import Plan, Run, Status, Verdict
from hotlap.source import patch
from hotlap.tune.measuring import PROFILERS

pytestmark = pytest.mark.gpu

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

SCRIPTS = Path(__file__).with_name("scripts")
NUM_STEPS = 60
SEEDS = range(5)
PERTURBATIONS = (1, 2, 3)

KINDS = tuple(kind for kind in levers.ALL if not kind.by_environment and kind.numerics is not Numerics.RECIPE)
# What must not be refused; of others a skipped test tells why they were.
TRIED = {
    "images": {"cached-dataset", "device-resident", "pin-and-overlap", "workers", "channels-last"}
    | {"cudnn-benchmark", "compile", "fused-optimizer", "bf16-autocast", "tf32"},
    "tokens": {"tf32", "bf16-autocast", "compile", "fused-optimizer"},
}


@dataclass(frozen=True, slots=True)
class Tried:
    """A lever on a script: what the gate said, or why it was refused."""

    refused: str | None
    ruling: gate.Ruling | None = None
    lost: tuple[str, ...] = ()


def command_of(script: str) -> tuple[str, ...]:
    return (sys.executable, str(SCRIPTS / f"{script}.py"))


def evidence_plan(script: str, *, reseed: int = 0, perturbation: int = 0, **settings: object) -> Plan:
    plan = Plan(command=command_of(script), cwd=str(SCRIPTS), out="", steps=NUM_STEPS, warmup=0, evidence=True)
    return replace(plan, reseed=reseed, perturbation=perturbation, **settings)  # type: ignore[arg-type]


def seeds_of(lever: Lever) -> Sequence[int]:
    return SEEDS if lever.numerics is Numerics.STATISTICAL else SEEDS[:1]


@cache
def tried(script: str) -> dict[str, Tried]:
    """All levers on this script."""
    with Launcher(environment=lambda plan: {}, folders=[SCRIPTS], timeout_s=300.0, templates=True) as launcher:

        def runs_of(plans: Sequence[Plan]) -> list[Run]:
            found = [run for some in _some(plans) for run in launcher(some, limit_s=300.0)]
            for run in found:
                assert run.status is Status.COMPLETE, f"{run.status}: {run.error}\n{run.output[-2000:]}"
            return found

        look = Plan(
            command=command_of(script), cwd=str(SCRIPTS), out="", steps=NUM_STEPS, warmup=10, profilers=PROFILERS
        )
        (seen,) = launcher([look], limit_s=300.0)
        assert seen.status is Status.COMPLETE, seen.error
        starts = [
            (0, 0),
            (0, 0),
            *((0, perturbation) for perturbation in PERTURBATIONS),
            *((seed, 0) for seed in SEEDS[1:]),
        ]
        base = runs_of(
            [evidence_plan(script, reseed=reseed, perturbation=perturbation) for reseed, perturbation in starts]
        )
        seen = replace(seen, loaders=base[0].loaders or seen.loaders)
        here = machine.look()
        refused: dict[str, Tried] = {}
        chosen: dict[str, Lever] = {}
        for kind in KINDS:
            lever = next(iter(kind.candidates(seen, here)), None)
            why = "it has no candidate" if lever is None else lever.rejects(seen, here)
            if lever is None or why is not None:
                refused[kind.name] = Tried(why)
            else:
                chosen[kind.name] = lever
        plans = {name: plans_under(script, lever, seen) for name, lever in chosen.items()}
        flat = iter(runs_of([plan for some in plans.values() for plan in some]))
        under = {name: [next(flat) for _ in some] for name, some in plans.items()}
    return refused | {name: judged(chosen[name], base, runs) for name, runs in under.items()}


def _some(plans: Sequence[Plan]) -> Iterator[tuple[Plan, ...]]:
    size = os.cpu_count() or 1
    return (tuple(plans[start : start + size]) for start in range(0, len(plans), size))


def plans_under(script: str, lever: Lever, seen: Run) -> list[Plan]:
    texts = patch(levers.edits_of((lever.spec(),), seen), root=SCRIPTS).texts
    return [
        evidence_plan(script, reseed=seed, always=(lever.spec(),), replaced=dict(texts)) for seed in seeds_of(lever)
    ]


def judged(lever: Lever, base: Sequence[Run], runs: Sequence[Run]) -> Tried:
    same, perturbed, seeds = base[:2], base[2 : 2 + len(PERTURBATIONS)], base[2 + len(PERTURBATIONS) :]
    evidence = gate.Evidence(
        base=tuple(same),
        lever=tuple(runs[:1]),
        perturbed=tuple(perturbed),
        base_seeds=(same[0], *seeds),
        lever_seeds=tuple(runs),
    )
    return Tried(None, gate.judge(str(lever.numerics), evidence), runs[0].not_installed)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("script", TRIED)
def test_a_lever_leaves_a_training_on_a_gpu_unharmed(script: str, kind: type[Lever]) -> None:
    found = tried(script)[kind.name]
    if found.refused is not None and kind.name not in TRIED[script]:
        pytest.skip(found.refused)
    assert found.refused is None
    assert not found.lost
    assert found.ruling is not None
    allowed = [Verdict.UNHARMED]
    if kind.numerics is Numerics.STATISTICAL:
        allowed.append(Verdict.UNDECIDED)  # five seeds of so few steps may not settle it
    assert found.ruling.verdict in allowed, found.ruling.why
