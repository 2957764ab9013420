"""Traces that were made for it, whose truth is known: what the device did, what it waited for, who waits for whom."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hotlap import rules
from hotlap.errors import UserError
from hotlap.record import IdleReason, Phase
from hotlap.trace import ranks, spans
from hotlap.units import duration
from tests.unit.trace.test_parse import ODD
from tests.unit.trace.written import Written

US = 1e-6
STEPS = 5
LENGTH = 1000.0


def training(*, input_us: float = 0.0, python_us: float = 0.0, wait: bool = False, late_us: float = 0.0) -> Written:
    """Steps of 1 ms: loading, Python, then a kernel of 300 us, with a wait for it, and Python of `late_us` behind."""
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        if input_us:
            made.loading(at, input_us)
        begin = at + input_us + python_us
        made.launch(begin, at=begin + 7, length=300)
        if wait:
            made.host("cpu_op", "aten::item", begin + 10, 297 + 5)
            made.host("cuda_runtime", "cudaStreamSynchronize", begin + 10, 297)
    return made


def per_step(found: float) -> float:
    return found / STEPS / US


def test_steps_by_the_profilers_marks_and_the_device_by_its_clock(tmp_path: Path) -> None:
    found = training(input_us=690).read(tmp_path)
    assert found.run.device == "Some GPU"
    assert found.run.step_s == pytest.approx([1000 * US] * STEPS, rel=1e-6)
    for step, *parts in zip(found.run.step_s, *(one or () for one in found.run.phase_s.values()), strict=True):
        assert sum(parts) == pytest.approx(step, rel=1e-6)


def test_a_device_that_starves_is_input_bound(tmp_path: Path) -> None:
    found = training(input_us=690).read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.INPUT)) == pytest.approx(690, rel=1e-3)
    assert found.run.mean_phase_s(Phase.INPUT) == pytest.approx(690 * US, rel=1e-3)
    (finding,) = rules.check(found.run)
    assert finding.code == "input-bound"
    assert finding.evidence == "Each step waits 690 us (69% of it) for its batch, made by the training process itself."


def test_the_line_that_loads_is_named(tmp_path: Path) -> None:
    made = training(input_us=690)
    for number in range(STEPS):
        made.host("python_function", "train.py(31): main", number * LENGTH - 1, 900)
        made.host("python_function", "data/images.py(9): __getitem__", number * LENGTH + 100, 500)
    assert "itself, most of it in data/images.py:9 __getitem__." in rules.check(made.read(tmp_path).run)[0].evidence


def test_of_two_devices_the_one_with_more_work_is_told_and_the_other_named(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        made.device = 1
        made.launch(at, at=at + 7, length=800)
        made.device = 0
        for k in range(4):
            made.launch(at + 20 + 20 * k, at=at + 100 + 60 * k, length=50)
    found = made.read(tmp_path)
    assert found.run.device == "Another GPU"
    assert found.run.mean_phase_s(Phase.FORWARD) == pytest.approx(800 * US, rel=0.02)
    (told,) = [note for note in found.run.notes if "worked too" in note]
    assert told == "Only device 1 is told here, which worked most; others worked too: 0."


def test_loading_behind_queued_kernels_costs_nothing(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        made.launch(at, at=at + 7, length=993)
        made.loading(at + 50, 600)
    found = made.read(tmp_path)
    assert found.idle.seconds(IdleReason.INPUT) == 0
    assert "input-bound" not in {one.code for one in rules.check(found.run)}


def test_python_while_the_device_idles_is_host_bound(tmp_path: Path) -> None:
    found = training(python_us=600).read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.PYTHON)) == pytest.approx(1000 - 300 - 10, rel=0.02)
    (finding,) = (one for one in rules.check(found.run) if one.code == "host-bound")
    python_s = found.idle.seconds(IdleReason.PYTHON) / STEPS
    assert finding.evidence.endswith(f"than launch the next kernel: {duration(python_s)} in the script's own Python.")


def test_what_held_the_device_up_is_named_by_the_innermost_line_or_mark(tmp_path: Path) -> None:
    """Of 600 us of Python 450 lie in a function of the user's; without stacks in a `record_function`."""
    stacks, marks = training(python_us=600), training(python_us=600)
    for number in range(STEPS):
        stacks.host("python_function", "train.py(31): main", number * LENGTH, 900)
        stacks.host("python_function", "data/mixing.py(9): mix", number * LENGTH + 100, 450)
        stacks.host("python_function", "torch/random.py(9): seed", number * LENGTH + 200, 100)
        marks.host("user_annotation", "augment", number * LENGTH + 100, 450)
    by_line, by_mark = (made.read(tmp_path).run.operators for made in (stacks, marks))
    assert by_line is not None and by_mark is not None
    lines, marked = (one.held_up[IdleReason.PYTHON] for one in (by_line, by_mark))
    assert list(lines) == ["data/mixing.py:9 mix", "train.py:31 main"]
    assert lines["data/mixing.py:9 mix"] == pytest.approx(450 * US, rel=0.02)
    assert marked == {"augment": pytest.approx(450 * US, rel=0.02)}


def test_operators_that_keep_the_host_from_launching_are_host_bound(tmp_path: Path) -> None:
    """Sorting on the host, then 40 launches of 10 us, as fast as it can."""
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        made.host("cpu_op", "aten::sort", at, 600)
        for kernel in range(40):
            made.launch(at + 600 + kernel * 10, at=at + 607 + kernel * 10, length=2)
    found = made.read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.OPERATORS)) == pytest.approx(600 - 10, rel=0.02)
    assert per_step(found.idle.seconds(IdleReason.PYTHON)) == pytest.approx(0, abs=5)
    host_bound, launch_bound = rules.check(found.run)
    assert (host_bound.code, launch_bound.code) == ("host-bound", "launch-bound")
    assert "in operators on the host (aten::sort 590 us)" in host_bound.evidence
    assert launch_bound.evidence.endswith("has not launched the next one (aten::mm 127 us).")


def test_python_behind_a_wait_is_the_waits_as_far_as_that_cost_it(tmp_path: Path) -> None:
    """The host waits 297 us in each step, so it could have been ahead by so much."""
    found = training(python_us=200, wait=True).read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.SYNC)) == pytest.approx(297, rel=0.25)
    (sighting,) = found.run.sightings
    assert (sighting.what, sighting.per_step) == ("aten::item", 1.0)
    assert "sync-bound" in {one.code for one in rules.check(found.run)}


def test_a_wait_for_a_device_that_is_done_costs_nothing(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        made.launch(at, at=at + 7, length=100)
        made.host("cuda_runtime", "cudaStreamSynchronize", at + 900, 2)
    found = made.read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.SYNC)) == pytest.approx(2, rel=0.3)
    assert "sync-bound" not in {one.code for one in rules.check(found.run)}


def test_small_kernels_that_are_launched_one_by_one_are_launch_bound(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        for kernel in range(99):
            made.launch(at + kernel * 10, at=at + kernel * 10 + 7, length=2)
    found = made.read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.CALLS) + found.idle.seconds(IdleReason.LAUNCH)) == pytest.approx(
        790, rel=0.05
    )
    assert rules.check(found.run)[0].code == "launch-bound"


def test_memory_that_is_allocated_anew(tmp_path: Path) -> None:
    made = training()
    for number in range(STEPS):
        made.host("cuda_runtime", "cudaMalloc", number * LENGTH + 400, 200, correlation=10_000 + number)
    found = made.read(tmp_path)
    assert per_step(found.idle.seconds(IdleReason.ALLOCATION)) == pytest.approx(200, rel=1e-3)


def test_the_line_of_a_wait_is_the_users_own(tmp_path: Path) -> None:
    made = training(wait=True)
    for number in range(STEPS):
        made.host("python_function", "train.py(31): main", number * LENGTH + 1, 800)
        made.host("python_function", "torch/_tensor.py(9): item", number * LENGTH + 5, 700)
    (sighting,) = made.read(tmp_path).run.sightings
    assert (sighting.path, sighting.line) == ("train.py", 31)


def test_the_start_of_an_unscheduled_trace_is_left_out(tmp_path: Path) -> None:
    made, at = Written(), 0.0
    for length in (50_000.0, *[LENGTH] * 8):
        made.launch(at + 10, at=at + 17, length=900)
        made.host("user_annotation", "Optimizer.step#SGD.step", at + length - 30, 20)
        at += length
    found = made.read(tmp_path)
    assert len(found.run.step_s) == 8
    assert max(found.run.step_s) == pytest.approx(LENGTH * US, rel=0.01)


def test_work_from_before_the_recording_is_not_counted(tmp_path: Path) -> None:
    made = training()
    made.events.append(
        {"ph": "X", "cat": "kernel", "name": "old", "ts": -5000, "dur": 1000, "pid": 0, "tid": 7, "args": {"stream": 7}}
    )
    (first, *_, last) = made.read(tmp_path).timeline.computing
    assert len(made.read(tmp_path).timeline.computing) == STEPS
    assert last[1] - first[0] == pytest.approx((4 * LENGTH + 300) * US)


@pytest.mark.parametrize("known", [0, 1])
def test_kernels_whose_launches_were_not_recorded_count_by_their_begin(known: int, tmp_path: Path) -> None:
    """None fits, or a single one does."""
    made = training(input_us=690)
    for event in made.events:
        if event["cat"] == "kernel":
            event["args"]["correlation"] += 0 if known and event["ts"] < LENGTH else 1000
    found = made.read(tmp_path)
    assert found.run.step_s == pytest.approx([1000 * US] * STEPS, rel=0.01)
    assert spans.length(found.timeline.busy) == pytest.approx(300 * US * STEPS)
    assert rules.check(found.run)[0].code == "input-bound"


def test_a_host_that_runs_ahead_does_not_shorten_steps(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        made.step(number, number * 100, 100)
        made.launch(number * 100 + 5, at=12 + number * LENGTH, length=LENGTH)
    found = made.read(tmp_path)
    assert found.run.step_s[1:] == pytest.approx([LENGTH * US] * (STEPS - 1))
    assert {one.code for one in rules.check(found.run)} <= {"compute-bound", "memory-bound"}


def test_of_a_long_trace_the_first_steps_have_what_they_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is ahead of the device by two steps: nothing of what it launched is lost where the window ends."""
    monkeypatch.setattr("hotlap.trace.reading._MOST_EVENTS", 100)
    made = Written()
    for number in range(STEPS):
        made.step(number, number * 300, 300)
        for kernel in range(10):
            made.launch(number * 300 + kernel * 20, at=10 + number * LENGTH + kernel * 100, length=100)
    window = made.read(tmp_path).run.operators
    assert window is not None
    assert window.complete, window.why_not
    assert (window.num_steps, window.num_kernels) == (3, 10)


@pytest.mark.parametrize(("kind", "stays"), [("Memcpy HtoD (Pinned -> Device)", False), ("Memcpy DtoD", True)])
def test_copies_beside_kernels_are_hidden(kind: str, stays: bool, tmp_path: Path) -> None:
    made = training()
    for number in range(STEPS):
        copy = {"category": "gpu_memcpy", "stream": 9, "name": kind, "operator": "aten::copy_"}
        made.launch(number * LENGTH + 20, at=number * LENGTH + 207, length=200, call="cudaMemcpyAsync", **copy)  # type: ignore[arg-type] # of the literals above
    found = made.read(tmp_path)
    assert spans.length(found.timeline.copies) == pytest.approx(200 * US * STEPS)
    assert spans.length(found.timeline.exposed_copies) == pytest.approx(100 * US * STEPS)
    assert found.run.operators is not None
    assert found.run.operators.copy_s == pytest.approx(0.0 if stays else 200 * US)
    (copied,) = found.run.operators.copies
    assert (copied.name, copied.per_step) == (kind, 1.0)
    assert (copied.device_s, copied.hidden_s) == pytest.approx((200 * US, 100 * US))


def with_checkpoints() -> Written:
    """In the node that needs the activation: a product and its gelu again, 200 us; the gradient itself takes 100."""
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        made.launch(at, at=at + 7, length=300, operator="aten::addmm")
        made.host("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", at + 30, 100)
        made.host("cpu_op", "AddmmBackward0", at + 31, 98)
        made.launch(at + 40, at=at + 400, length=150, operator="aten::addmm")
        made.launch(at + 60, at=at + 550, length=50, operator="aten::gelu", name="vectorized_elementwise_kernel")
        made.launch(at + 80, at=at + 600, length=100)
    return made


def test_what_the_backward_pass_computes_again_is_a_finding(tmp_path: Path) -> None:
    found = with_checkpoints().read(tmp_path)
    assert found.run.operators is not None
    assert found.run.operators.recomputed_s == pytest.approx(200 * US)
    assert "recomputation" in {one.code for one in rules.check(found.run)}


def test_a_gradient_that_convolves_computes_nothing_again(tmp_path: Path) -> None:
    """That of a transposed convolution is a plain one."""
    made = training()
    for number in range(STEPS):
        at = number * LENGTH
        made.host("cpu_op", "autograd::engine::evaluate_function: ConvolutionBackward0", at + 20, 100)
        made.host("cpu_op", "aten::convolution_backward", at + 21, 98)
        made.launch(at + 40, at=at + 400, length=150, operator="aten::cudnn_convolution")
    found = made.read(tmp_path)
    assert found.run.operators is not None
    assert found.run.operators.recomputed_s == 0.0


def test_a_trace_of_the_host_alone_is_told(tmp_path: Path) -> None:
    made = Written()
    made.host("cpu_op", "aten::mm", 0, 10)
    with pytest.raises(UserError, match="no work of a device"):
        made.read(tmp_path)


@given(
    late=st.lists(st.integers(0, 400), min_size=3, max_size=3),
    skew=st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=3),
    missed=st.integers(0, STEPS - 2),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_ranks_that_wait_for_one_whatever_their_clocks_say(
    late: list[int], skew: list[int], missed: int, tmp_path: Path
) -> None:
    """All leave the collective together, and each comes to it as late as it is. Rank 2 began to record late."""
    found = []
    for rank in range(3):
        made = Written(rank=rank, world_size=3)
        for number in range(missed if rank == 2 else 0, STEPS):
            at = skew[rank] + number * LENGTH
            made.step(number, at, LENGTH)
            made.launch(at, at=at + 7, length=293 + late[rank])
            collective = {"name": "ncclDevKernel_AllReduce_Sum_f32", "operator": "c10d::allreduce_", "stream": 20}
            made.launch(at + 20, at=at + 300 + late[rank], length=500 - late[rank], **collective)  # type: ignore[arg-type] # of the literals above
        (tmp_path / str(rank)).mkdir(exist_ok=True)
        found.append(made.read(tmp_path / str(rank)))
    run = ranks.joined(found)
    assert late[run.rank] == max(late)
    assert [one.wait_s for one in run.ranks] == pytest.approx([(max(late) - one) * US for one in late], abs=1e-9)
    assert [one.transfer_s for one in run.ranks] == pytest.approx([(500 - max(late)) * US] * 3, rel=0.001)
    first, second, last = sorted(late)
    if abs((beyond := last - (first + second) / 2) - 0.1 * LENGTH) > 1:
        assert ("straggler" in {one.code for one in rules.check(run)}) == (beyond > 0.1 * LENGTH)


def test_who_waits_for_whom_within_a_group_of_processes(tmp_path: Path) -> None:
    """Two groups of two ranks, by what kernels tell, or the operators that launch them; rank 1 comes 200 us late to its
    own group, and the other one is no slower for it."""
    found = []
    for rank, late in enumerate((0, 200, 0, 0)):
        made = Written(rank=rank, world_size=4)
        told = {"Process Group Ranks": "[0, 1]" if rank < 2 else "[2, 3]", "Collective name": "allreduce"}
        for number in range(STEPS):
            at = number * LENGTH
            made.step(number, at, LENGTH)
            made.launch(at, at=at + 7, length=293 + late)
            length = 400 - late if rank < 2 else 150
            made.launch(
                at + 20,
                at=at + 300 + late,
                length=length,
                name="ncclDevKernel_Generic",
                stream=20,
                operator="record_param_comms",
            )
            (made.events[-1] if rank % 2 else made.events[-3])["args"] |= told
        (tmp_path / str(rank)).mkdir()
        found.append(made.read(tmp_path / str(rank)))
    run = ranks.joined(found)
    assert [one.wait_s for one in run.ranks] == pytest.approx([200 * US, 0, 0, 0], abs=1e-9)
    assert run.rank == 1
    assert "rank 1 to 5 (the others wait 200 us a step for it)" in run.notes[1]
    assert run.operators is not None
    assert [one.name for one in run.operators.collectives] == ["allreduce"]


kernels = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 60), st.integers(0, 3), st.sampled_from(["kernel", "nccl", "copy"])),
    min_size=1,
    max_size=30,
)


@given(work=kernels, odd=st.lists(st.sampled_from(ODD), max_size=5), order=st.randoms(use_true_random=False))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_busy_and_exposed_times_of_any_streams(
    work: list[tuple[int, int, int, str]], odd: list[Any], order: random.Random, tmp_path: Path
) -> None:
    """Nested, overlapping, out of order, of no length, among events without times, beside a device that works less:
    against a grid of microseconds."""
    made = Written()
    sets: dict[str, set[int]] = {"kernel": set(), "nccl": set(), "copy": set()}
    for start, length, stream, kind in work:
        names = {"kernel": "gemm", "nccl": "ncclKernel", "copy": "Memcpy HtoD (Pinned -> Device)"}
        category = "gpu_memcpy" if kind == "copy" else "kernel"
        made.launch(start, at=start + 8, length=length, name=names[kind], category=category, stream=stream)
        sets[kind] |= set(range(start + 8, start + 8 + length))
    if not any(sets.values()):
        return
    made.events += odd
    made.device = 1
    made.launch(100, at=107, length=0.5)
    order.shuffle(made.events)
    found = made.read(tmp_path).timeline
    computing, talking, copying = sets["kernel"], sets["nccl"], sets["copy"]
    for part, moments in (
        (found.computing, computing),
        (found.exposed_communication, talking - computing),
        (found.exposed_copies, copying - computing - talking),
        (found.busy, computing | talking | copying),
    ):
        assert spans.length(part) == pytest.approx(len(moments) * US, abs=1e-9)


@given(
    work=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), min_size=1, max_size=12),
    loads=st.integers(0, 400),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reasons_make_up_what_the_device_idled(work: list[tuple[int, int]], loads: int, tmp_path: Path) -> None:
    made, at, free = Written(), 0.0, 0.0
    made.loading(0, loads)
    for pause, length in work:
        at += loads * (at == 0) + pause + 10
        free = max(free, at + 7) + length
        made.launch(at, at=free - length, length=length)
    found = made.read(tmp_path)
    idled = sum(found.idle.seconds(why) for why in IdleReason)
    assert idled == pytest.approx(float(np.sum(found.idle.end - found.idle.start)), abs=1e-9)
    assert all(found.idle.seconds(why) >= 0 for why in IdleReason)


def test_an_optimizer_of_many_small_kernels_is_told_from_the_model(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        at = number * LENGTH
        made.step(number, at, LENGTH)
        made.launch(at, at=at + 7, length=93)
        made.host("user_annotation", "Optimizer.step#Adam.step", at + 100, 880)
        for kernel in range(80):
            made.launch(at + 100 + kernel * 11, at=at + 107 + kernel * 11, length=4, operator="aten::add_")
    found = made.read(tmp_path)
    assert found.run.mean_phase_s(Phase.OPTIMIZER) == pytest.approx(880 * US, rel=0.03)
    (optimizer,) = (one for one in rules.check(found.run) if one.code == "optimizer-bound")
    assert "fused-optimizer" in optimizer.try_levers
