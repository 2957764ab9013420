"""Studies without trials, in realistic numbers: on a GPU with all that profilers see, and of a long run."""

import dataclasses
import random

from hotlap.record import (
    Ceiling,
    CpuUse,
    Finding,
    HotLine,
    InputPart,
    Interval,
    LongRun,
    MemorySample,
    Noise,
    Operator,
    OperatorWindow,
    Phase,
    Purpose,
    RankFacts,
    Run,
    ShapeFacts,
    Sighting,
    SightingKind,
    State,
    Status,
    Study,
    SwitchFacts,
)
from tests.sample_runs import SCRIPT, loader, machine, optimizer, run_with, site


def run_on_gpu() -> Run:
    """A run with copies, a device, and all that profilers can see."""
    run = run_with(
        phases={
            Phase.INPUT: 0.0021,
            Phase.TRANSFER: 0.0012,
            Phase.FORWARD: 0.0016,
            Phase.BACKWARD: 0.0018,
            Phase.OPTIMIZER: 0.0007,
            Phase.SYNC: 0.0031,
            Phase.OTHER: 0.0004,
        },
        num_steps=200,
        jitter=0.06,
        device="NVIDIA H200",
    )
    draw = random.Random(5)
    return dataclasses.replace(
        run,
        phase_s={**run.phase_s, Phase.COMMUNICATION: None},
        device_phase_s={
            phase: tuple(mean * draw.uniform(0.95, 1.05) for _ in range(200))
            for phase, mean in ((Phase.TRANSFER, 0.0011), (Phase.FORWARD, 0.0024), (Phase.BACKWARD, 0.0041))
        },
        input_s={InputPart.ITEMS: 0.0012, InputPart.COLLATE: 0.0005, InputPart.WORKERS: None},
        epoch_starts=(40, 140),
        hot_lines=(
            HotLine(
                path=SCRIPT, line=52, function="train", text="seen[int(k)] += 1", phase=Phase.OTHER, step_s=0.0003
            ),
            HotLine(path="/usr/lib/x/collate.py", line=9, function="pad", text="", phase=Phase.INPUT, step_s=0.0002),
        ),
        sightings=(
            Sighting(
                kind=SightingKind.SYNC, what="Tensor.item", path=SCRIPT, line=51, text="total += loss.item()",
                per_step=1.0, cost_s=0.0031,
            ),
            Sighting(
                kind=SightingKind.BLOCKING_COPY, what="Tensor.to", path=None, line=None, per_step=2.0,
                num_bytes=1_204_224.0,
            ),
        ),
        operators=OperatorWindow(
            num_steps=3, wall_s=0.0131, num_calls=214, dispatch_s=4.1e-6, num_kernels=187,
            kernel_s=3.4e-5, device_busy_s=0.0071, copy_s=0.0011,
            copy_exposed_s=0.0009, tensor_core_share=0.62,
            operators=(
                Operator(name="aten::addmm", per_step=12, self_s=0.0004, device_s=0.0029),
                Operator(name="aten::_foreach_add_", per_step=2, self_s=0.0001, device_s=0.0003),
            ),
        ),
        switches=SwitchFacts(cudnn_benchmark=True),
        cpu=CpuUse(usable_cores=16, main=1.3, others=3.8, runnable=5.2, throttled=0.02),
        memory=tuple(
            MemorySample(
                step=20 + 25 * i, rss_bytes=(2_100 + 3 * i) << 20, device_bytes=(900 + i) << 20,
            )
            for i in range(9)
        ),
        shapes=ShapeFacts(num_steps=200, num_shapes=14, num_new_late=3),
        num_validations=2,
        validation_s=1.4,
        rss_peak_bytes=2_150 << 20,
        device_peak_bytes=1_100 << 20,
        ranks=(
            RankFacts(rank=0, host="node1", step_s=0.0109, compute_s=0.0091, wait_s=0.0012, transfer_s=0.0006),
            RankFacts(rank=1, host="node1", step_s=0.0109, compute_s=0.0103, wait_s=None, transfer_s=None),
        ),
        loaders=(loader(),),
        optimizers=(optimizer(),),
        call_sites=(site("torch.utils.data.DataLoader", 24),),
    )  # fmt: skip


def study_measured() -> Study:
    """A complete `hotlap measure` on a GPU."""
    return Study(
        command=("train.py", "--epochs", "3"),
        cwd="/home/ada/digits",
        created="2026-05-04T09:30:00Z",
        key="77c0a9be37c44265",
        hotlap="0.1.0",
        purpose=Purpose.MEASURE,
        state=State.COMPLETE,
        elapsed_s=48.0,
        machine=dataclasses.replace(machine(), gpus=("NVIDIA H200",)),
        baseline=(run_on_gpu(),),
        noise=(
            Noise(
                scope="again", speedup=Interval(low=0.97, mid=1.002, high=1.035), smallest_gain=1.041,
                log_ratios=(0.011, -0.018, 0.007),
            ),
        ),
        findings=(
            Finding(
                code="sync-bound", cost_s=0.0031, share=0.28,
                evidence="Each step waits 3.10 ms (28% of it) for the device in Tensor.item at digits.py:51.",
                risk="none for the numbers; a NaN is noticed later.",
            ),
            Finding(
                code="input-bound", cost_s=0.0021, share=0.19,
                evidence="Each step waits 2.10 ms (19% of it) for its batch.", try_levers=("cached-dataset",),
            ),
        ),
        ceilings=(
            Ceiling(
                name="input", idealised="batches replayed from memory instead of loaded", step_s=0.0089,
                speedup=Interval(low=1.19, mid=1.23, high=1.27),
            ),
            Ceiling(
                name="transfers", idealised="no wait for a copy between host and device", step_s=0.0097,
                speedup=Interval(low=1.11, mid=1.12, high=1.13),
            ),
            Ceiling(
                name="host", idealised="no time in the script's own Python between the phases", step_s=0.0105,
                speedup=Interval(low=1.03, mid=1.04, high=1.05),
            ),
            Ceiling(
                name="launches", idealised="the device never waits for a launch", step_s=0.0103,
                speedup=Interval(low=1.05, mid=1.06, high=1.07),
            ),
        ),
    )  # fmt: skip


def study_long() -> Study:
    """A `hotlap measure --full` of a training that grew."""
    run = run_with(num_steps=128, jitter=0.1)
    run = dataclasses.replace(
        run,
        status=Status.COMPLETE,
        exit_code=0,
        seed=None,
        long=LongRun(num_steps=40 * 8192, total_s=1080.0, longest_s=0.09),
        memory=tuple(MemorySample(step=20 + 8192 * i, rss_bytes=(600 + 4 * i) << 20) for i in range(1, 41)),
        step_index=tuple(range(20, 20 + 128 * 2560, 2560)),
    )
    return dataclasses.replace(study_measured(), baseline=(run,), noise=(), ceilings=(), findings=(), elapsed_s=1102.0)
