"""Runs, and what surrounds them, in realistic numbers; tests import them from `tests.samples`."""

import math
import random
from collections.abc import Mapping

from hotlap.record import CallSite, LoaderFacts, Machine, Number, OptimizerFacts, Phase, Run, Status
from hotlap.record.spans import PHASES, Step, excerpt

SCRIPT = "/home/ada/digits/digits.py"
SHA = "9f2c1e0b7a54d3f6" * 4
VERSIONS: Mapping[str, str] = {"python": "3.11.2", "torch": "2.13.0", "numpy": "2.3.1", "hotlap": "0.1.0"}


def run_with(
    *,
    step_s: float = 0.0032,
    input_s: float | None = None,
    phases: Mapping[Phase, float] | None = None,
    num_steps: int = 100,
    jitter: float = 0.0,
    seed: int = 0,
    losses: tuple[Number, ...] | None = None,
    device: str = "cpu",
) -> Run:
    """A complete run. Give the mean of each phase, or a step and its input; the rest of the step is then divided.

    `jitter` is the relative standard deviation of each phase of each step, drawn with `seed`.
    """
    if phases is None:
        phases = _divided(step_s, input_s=0.6 * step_s if input_s is None else input_s)
    draw = random.Random(seed)
    phase_s = {
        phase: tuple(mean * max(0.2, draw.gauss(1, jitter)) if jitter else mean for _ in range(num_steps))
        for phase, mean in phases.items()
    }
    return Run(
        status=Status.COMPLETE,
        excerpt=excerpt(_steps(phase_s, num_steps)),
        versions=VERSIONS,
        device=device,
        num_threads=2,
        seed=0,
        setup_s=2.4,
        first_steps_s=(0.0210, 0.0041, 0.0034),
        step_s=tuple(sum(parts) for parts in zip(*phase_s.values(), strict=True)),
        phase_s=phase_s,
        arm=(0,) * num_steps,
        block=tuple(i // 10 for i in range(num_steps)),
        step_index=tuple(range(20, 20 + num_steps)),
        epoch_starts=(),
        loss=falling_loss(num_steps) if losses is None else losses,
        num_samples=(64,) * num_steps,
        num_updates=(1,) * num_steps,
        sources={SCRIPT: SHA},
        rss_peak_bytes=612 << 20,
        probe_s=0.000012,
    )


def _steps(phase_s: Mapping[Phase, tuple[float, ...]], num_steps: int) -> list[Step]:
    """One phase after the other, and at the end of a step what is in none."""
    found: list[Step] = []
    now = 0.0
    for i in range(num_steps):
        begin, pieces = now, []
        for phase, seconds in phase_s.items():
            if phase is not Phase.OTHER:
                pieces.append((PHASES.index(phase), now, now + seconds[i], seconds[i]))
            now += seconds[i]
        found.append(Step(number=20 + i, begin=begin, end=now, recorded=True, pieces=pieces))
    return found


def _divided(step_s: float, *, input_s: float) -> dict[Phase, float]:
    """A step whose compute is shared out as in a small network; the parts sum to `step_s`."""
    rest = step_s - input_s
    return {
        Phase.INPUT: input_s,
        Phase.FORWARD: 0.28 * rest,
        Phase.BACKWARD: 0.34 * rest,
        Phase.OPTIMIZER: 0.26 * rest,
        Phase.OTHER: 0.12 * rest,
    }


def falling_loss(num_steps: int) -> tuple[Number, ...]:
    """Losses of a classifier of ten classes that learns."""
    draw = random.Random(1)
    return tuple(0.25 + 2.05 * math.exp(-i / 70) + draw.gauss(0, 0.06) for i in range(num_steps))


def machine() -> Machine:
    """A small shared Linux machine."""
    return Machine(
        system="Linux",
        processor="Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
        num_cores=2,
        usable_cores=2.0,
        memory_bytes=24 << 30,
        available_bytes=19 << 30,
        shm_bytes=12 << 30,
        huge_pages="madvise",
        libc="glibc 2.36",
        cpu_flags=("avx2", "avx512f", "avx512_bf16", "amx_bf16"),
        compiler="/usr/bin/g++",
    )


def loader() -> LoaderFacts:
    return LoaderFacts(
        id=0, dataset="Digits", num_items=60_000, num_workers=0, batch_size=64, default_collate=True, pin_memory=False,
        trained_on=True, deterministic=True, why_not=None, item_s=3.6e-5, item_bytes=3144,
    )  # fmt: skip


def optimizer() -> OptimizerFacts:
    return OptimizerFacts(
        id=0, name="torch.optim.adam.Adam", fused=None, foreach=None, has_fused=True, num_parameters=4,
        num_elements=203_530, device="cpu", dtypes=("float32",), all_dense=True, not_dense=None,
        closure=False,
    )  # fmt: skip


def site(calls: str, line: int) -> CallSite:
    return CallSite(calls=calls, path=SCRIPT, sha256=SHA, line=line, end_line=line, col=13, end_col=61)
