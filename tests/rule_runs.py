"""A run for each rule: one on which it fires, in realistic numbers; and healthy ones of several kinds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean, median

from hotlap.record import (
    CallFacts,
    CpuUse,
    HotLine,
    InputPart,
    Machine,
    MemorySample,
    OperatorWindow,
    Phase,
    PhaseCalls,
    RankFacts,
    Run,
    ShapeFacts,
    Sighting,
    SightingKind,
    SwitchFacts,
    WhatIf,
)
from hotlap.source import scripts
from tests.sample_runs import SCRIPT, loader, machine, optimizer, run_with

HEALTHY_SHARES = {Phase.INPUT: 0.01, Phase.FORWARD: 0.36, Phase.BACKWARD: 0.56, Phase.OPTIMIZER: 0.04}

# Of the input, so that no phase of the model reaches its own limit.
STARVED_SHARES = {Phase.INPUT: 0.60, Phase.FORWARD: 0.15, Phase.BACKWARD: 0.15, Phase.OPTIMIZER: 0.06}


def run_of_shares(shares: Mapping[Phase, float], *, step_s: float = 0.01, device: str = "cpu") -> Run:
    """A run whose steps are divided like that; "other" takes the rest."""
    phases = {phase: share * step_s for phase, share in shares.items()}
    phases[Phase.OTHER] = phases.get(Phase.OTHER, 0.0) + step_s * (1 - sum(shares.values()))
    run = run_with(phases=phases, num_steps=40, device=device)
    return replace(run, loaders=(loader(),), optimizers=(optimizer(),))


def calls(*, step_s: float, arithmetic: float = 0.8, number: float = 60, streaming: float = 0.0) -> CallFacts:
    """Operators whose arithmetic is that part of healthy forward and backward passes."""
    return CallFacts(
        call_s=0.0004 * step_s,
        phases={
            phase: PhaseCalls(
                calls=number / 2,
                arithmetic_s=arithmetic * HEALTHY_SHARES[phase] * step_s,
                graph_calls=number / 2,
                graph_s=arithmetic * HEALTHY_SHARES[phase] * step_s,
                streaming_s=streaming * HEALTHY_SHARES[phase] * step_s,
            )
            for phase in (Phase.FORWARD, Phase.BACKWARD)
        },
    )


def healthy(*, step_s: float = 0.01) -> Run:
    """A training in which nothing is to be fixed, and everything was looked at."""
    return replace(
        run_of_shares(HEALTHY_SHARES, step_s=step_s),
        calls=calls(step_s=step_s),
        switches=SwitchFacts(environment={"OMP_NUM_THREADS": "2"}),
        cpu=CpuUse(usable_cores=2.0, main=1.8, others=0.1, runnable=1.9, throttled=0.0, busiest_worker=0.1),
        memory=memory(per_step=0),
        shapes=ShapeFacts(num_steps=60, num_shapes=2, num_new_late=1, new_steps=(0, 40)),
        what_ifs=(WhatIf(setting="threads", now=1, other=2, now_s=step_s, other_s=0.95 * step_s, agree=0.8),),
        operators=window(step_s=step_s),
    )


def window(*, step_s: float) -> OperatorWindow:
    return OperatorWindow(
        num_steps=5, wall_s=1.2 * step_s, operators=(), num_calls=120, dispatch_s=4e-4 * step_s,
        flops=2e11 * step_s, moved_bytes=1e10 * step_s,
    )  # fmt: skip


def device_window(*, step_s: float, gap: float = 0.02, exposed: float = 0.01, waits: float = 0.0) -> OperatorWindow:
    return replace(
        window(step_s=step_s), num_kernels=300, kernel_s=step_s / 400, device_busy_s=(0.98 - gap - waits) * step_s,
        copy_s=0.02 * step_s, copy_exposed_s=exposed * step_s, flops=1e13 * step_s,
    )  # fmt: skip


def memory(*, per_step: int) -> tuple[MemorySample, ...]:
    return tuple(
        MemorySample(step=step, rss_bytes=(500 << 20) + step * per_step, private_bytes=(400 << 20) + step * per_step)
        for step in range(20, 60)
    )


def sighting(kind: SightingKind, *, cost_s: float | None = None, **detail: float | bool | str) -> Sighting:
    return Sighting(
        kind=kind, what="Net", path=SCRIPT, line=12, text="y = model(x)", per_step=1.0, cost_s=cost_s, detail=detail
    )


def padding() -> Sighting:
    """Three quarters of what the model is given."""
    return sighting(SightingKind.PADDING, share=0.75, shape="(32, 120)", length=120, needed=30, batches=12)


def table(*, cost_s: float, **detail: int) -> Sighting:
    """Nine tenths of the elements of `firing("dense-embedding-gradients")`."""
    told: dict[str, int | str] = {"module": "items", "rows": 120_000, "touched": 1200, "elements": 3_600_000, **detail}
    return replace(sighting(SightingKind.DENSE_GRADIENT, cost_s=cost_s, **told), what="Embedding")


def gpu_machine() -> Machine:
    return replace(machine(), gpus=("NVIDIA H200",))


def firing(code: str, *, step_s: float = 0.01) -> Run:
    """A run on which the rule of that code fires."""
    run = healthy(step_s=step_s)
    gpu = replace(
        run_of_shares({**HEALTHY_SHARES, Phase.TRANSFER: 0.02}, step_s=step_s, device="NVIDIA H200"),
        operators=device_window(step_s=step_s),
    )
    starved = run_of_shares(STARVED_SHARES, step_s=step_s)
    ranks = tuple(
        RankFacts(
            rank=k, host="node", step_s=step_s, compute_s=(0.5 + 0.3 * (k == 1)) * step_s, wait_s=0.1 * step_s,
            transfer_s=0.2 * step_s,
        )
        for k in range(4)
    )  # fmt: skip
    runs = {
        "input-bound": replace(starved, input_s={InputPart.ITEMS: 0.5 * step_s, InputPart.COLLATE: 0.1 * step_s}),
        "epoch-gap": _with_gaps(run),
        "transfer-bound": replace(gpu, operators=device_window(step_s=step_s, exposed=0.3)),
        "launch-bound": replace(run, calls=calls(step_s=step_s, arithmetic=0.2, number=700)),
        "compute-bound": run,
        "memory-bound": replace(run, calls=calls(step_s=step_s, streaming=0.7)),
        "optimizer-bound": run_of_shares({**HEALTHY_SHARES, Phase.BACKWARD: 0.2, Phase.OPTIMIZER: 0.4}, step_s=step_s),
        "host-bound": run_of_shares({**HEALTHY_SHARES, Phase.BACKWARD: 0.3}, step_s=step_s),
        "sync-bound": replace(
            gpu,
            operators=device_window(step_s=step_s, waits=0.22),
            sightings=(sighting(SightingKind.SYNC, cost_s=0.2 * step_s),),
        ),
        "communication-bound": run_of_shares(
            {**HEALTHY_SHARES, Phase.BACKWARD: 0.26, Phase.COMMUNICATION: 0.3}, step_s=step_s
        ),
        "recomputation": replace(gpu, operators=replace(device_window(step_s=step_s), recomputed_s=0.2 * step_s)),
        "straggler": replace(run, ranks=ranks, world_size=4),
        "shape-churn": _with_new_shapes(run),
        "thread-oversubscription": replace(run, what_ifs=(_threads(64, 2, step_s=step_s),)),
        "thread-starvation": replace(run, what_ifs=(_threads(1, 2, step_s=step_s),)),
        "debug-left-on": replace(
            run,
            switches=SwitchFacts(anomaly_mode=True),
            what_ifs=(left_off("anomaly-mode", step_s, without_s=[0.6 * step_s] * 5),),
        ),
        "memory-growth": replace(run, memory=memory(per_step=1 << 20), epoch_starts=(20,)),
        "wasted-forward": replace(run, sightings=(sighting(SightingKind.WASTED_FORWARD, cost_s=0.2 * step_s),)),
        "dense-embedding-gradients": replace(
            run_of_shares({**HEALTHY_SHARES, Phase.BACKWARD: 0.2, Phase.OPTIMIZER: 0.4}, step_s=step_s),
            optimizers=(replace(optimizer(), num_elements=4_000_000),),
            sightings=(table(cost_s=0.1 * step_s),),
        ),
        "padding": replace(run, sightings=(padding(),)),
        "sparse-as-dense": replace(
            run,
            sightings=(
                sighting(SightingKind.ZEROS, cost_s=0.2 * step_s, phase="forward", filled=0.01, shape="64 x 20000"),
            ),
        ),
        "repeated-backward": _with_again(run),
        "single-samples": replace(
            run,
            calls=calls(step_s=step_s, arithmetic=0.1, number=600),
            sightings=(replace(sighting(SightingKind.SINGLE, cost_s=0.2 * step_s), per_step=16.0),),
        ),
        "same-each-step": replace(
            run, sightings=(sighting(SightingKind.UNCHANGED, cost_s=0.2 * step_s, phase="forward", steps=5),)
        ),
        "frequent-validation": replace(run, sightings=(sighting(SightingKind.EVALUATION, cost_s=0.5 * step_s),)),
        "double-precision": replace(run, optimizers=(replace(optimizer(), dtypes=("float64",)),)),
        "cpu-with-idle-gpu": replace(run, calls=calls(step_s=step_s, number=min(60, 1e3 * step_s))),
        "too-small-for-gpu": replace(
            gpu, operators=replace(device_window(step_s=step_s), flops=1e8 * step_s, moved_bytes=1e8 * step_s)
        ),
        "unneeded-gradients": _with_unneeded(run),
        "frozen-features": _with_frozen(run),
        "page-faults": replace(
            run, cpu=CpuUse(usable_cores=2.0, main=1.8, others=0.1, page_faults=2e5, page_fault_s=1e-6)
        ),
        "denormal-numbers": replace(run, optimizers=(replace(optimizer(), denormals=0.2),)),
        "attention-over-batch": replace(
            run, sightings=(sighting(SightingKind.ATTENTION_OVER_BATCH, length=32, batch=64),)
        ),
    }  # fmt: skip
    return runs[code]


def _with_new_shapes(run: Run) -> Run:
    """Most steps bring one, and take twice as long."""
    new = tuple(range(48))
    step_s = tuple((1 + (step in new)) * s for s, step in zip(run.step_s, run.step_index, strict=True))
    return replace(run, step_s=step_s, shapes=ShapeFacts(num_steps=60, num_shapes=48, num_new_late=20, new_steps=new))


def _with_script(run: Run, name: str) -> Run:
    """The run of a script in tests/advice."""
    path = Path(__file__).parent / "advice" / f"{name}.py"
    return replace(run, sources={str(path): sha256(path.read_bytes()).hexdigest()})


def _with_unneeded(run: Run) -> Run:
    """Its backward pass is given more to compute than its optimizer needs."""
    run = _with_script(run, "unneeded_gradients")
    (script,) = scripts(run)
    (call,) = script.methods("backward")
    detail = {"parameters": 2, "unneeded": 4160, "elements": 4680, "seconds": 0.5 * run.step_s[0], "owned": False}
    return replace(run, call_sites=(replace(script.site(call, calls="backward"), detail=detail),))


def _with_again(run: Run) -> Run:
    """Five sixths of its backward passes go over a graph that was gone through before."""
    run = _with_unneeded(run)
    (site,) = run.call_sites
    return replace(run, call_sites=(replace(site, detail={"again": 5.0, "again_part": 5 / 6}),))


def _with_frozen(run: Run) -> Run:
    """Three quarters of its forward pass are a body that is not trained."""
    run = _with_script(run, "frozen_features")
    facts = run.calls
    assert facts is not None
    seen = facts.phases[Phase.FORWARD]
    (path,) = run.sources
    frozen = replace(seen, graph_s=0.25 * seen.arithmetic_s)
    text = "features = body(torch.randn(32, 64))"
    line = HotLine(
        path=path, line=10, function="<module>", text=text, phase=Phase.FORWARD, step_s=0.75 * seen.arithmetic_s
    )
    return replace(
        run, calls=replace(facts, phases={**facts.phases, Phase.FORWARD: frozen}), hot_lines=(line, *run.hot_lines)
    )


def left_off(setting: str, step_s: float, *, without_s: Sequence[float]) -> WhatIf:
    """A switch that is on, and off for some blocks of steps."""
    ratios = tuple(math.log(step_s / one) for one in without_s)
    other_s = median(without_s)
    agree = fmean((ratio > 0) == (step_s > other_s) for ratio in ratios)
    return WhatIf(setting=setting, now=True, other=False, now_s=step_s, other_s=other_s, agree=agree, log_ratios=ratios)


def _threads(now: int, other: int, *, step_s: float) -> WhatIf:
    return WhatIf(setting="threads", now=now, other=other, now_s=step_s, other_s=0.6 * step_s, agree=1.0)


def _with_gaps(run: Run) -> Run:
    """Two epochs begin, each with a wait of as long as ten steps."""
    step_s = run.step_s[0]
    starts = (5, 25)
    waits = [wait + (10 * step_s if i in starts else 0.0) for i, wait in enumerate(run.phase_s[Phase.INPUT] or ())]
    steps = [seconds + (10 * step_s if i in starts else 0.0) for i, seconds in enumerate(run.step_s)]
    return replace(
        run,
        epoch_starts=starts,
        step_s=tuple(steps),
        phase_s={**run.phase_s, Phase.INPUT: tuple(waits)},
        loaders=(replace(loader(), num_items=20 * 64, num_workers=2),),
    )


def healthy_runs() -> Mapping[str, Run]:
    """Trainings that nobody needs to fix, by what is special about them."""
    run = healthy()
    return {
        "on the CPU": run,
        "nothing looked at but the phases": run_of_shares(HEALTHY_SHARES),
        "on a GPU": replace(
            run_of_shares({**HEALTHY_SHARES, Phase.SYNC: 0.02}, device="NVIDIA H200"),
            operators=device_window(step_s=0.01),
        ),
        "a small net": replace(
            run_of_shares({Phase.INPUT: 0.07, Phase.FORWARD: 0.33, Phase.BACKWARD: 0.37, Phase.OPTIMIZER: 0.18}),
            calls=calls(step_s=0.01, arithmetic=0.6, number=80),
        ),
        "an epoch's end": replace(run, epoch_starts=(7, 27)),
        "buckets of lengths": replace(run, shapes=ShapeFacts(num_steps=60, num_shapes=8, num_new_late=0)),
        "memory that settles": replace(
            run,
            memory=tuple(
                MemorySample(step=step, rss_bytes=(500 << 20) + min(step, 30) * (1 << 20)) for step in range(20, 60)
            ),
        ),
        "several processes": replace(
            run,
            world_size=2,
            ranks=tuple(
                RankFacts(rank=k, host="node", step_s=0.01, compute_s=0.0093, wait_s=0.0002, transfer_s=0.0005)
                for k in range(2)
            ),
        ),
        "four busy workers": replace(
            run, cpu=CpuUse(usable_cores=2.0, main=1.0, others=1.0, runnable=5.0, throttled=0.0, busiest_worker=0.9)
        ),
    }
