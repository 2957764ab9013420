"""A record of the probe's, and the trace beside it, whose truth is known -> what the record says then."""

import json
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from hotlap.record import OperatorWindow, Phase, Run, Status
from hotlap.trace.window import completed
from tests.unit.trace.written import Written

US = 1e-6
STEPS = 4
COUNTED = OperatorWindow(
    num_steps=STEPS, wall_s=0.1, operators=(), num_calls=0, complete=False, why_not="the trace was lost",
    dispatch_s=2e-6, flops=1e9, moved_bytes=1e6,
)  # fmt: skip


def record(**device_us: float) -> Run:
    """What the probe knows; `device_us`: by phase, the same in each step."""
    told = {phase: (device_us[phase.value] * US,) * 3 if phase.value in device_us else None for phase in Phase}
    return Run(
        status=Status.COMPLETE,
        device_type="cuda" if device_us else "cpu",
        operators=COUNTED,
        device_phase_s=told if device_us else {},
    )


def beside(run: Run, made: Written, folder: Path) -> Run:
    path = folder / "operators-0.json"
    path.write_text(json.dumps(made.document()))
    return completed(run, path)


def device_us(run: Run, phase: Phase) -> float:
    column = run.device_phase_s[phase]
    assert column is not None
    assert len(set(column)) == 1
    return column[0] / US


def training(*, kernel_us: float = 300.0) -> Written:
    made = Written()
    for number in range(STEPS):
        made.step(number, 1000.0 * number, 1000.0)
        made.launch(1000.0 * number + 100, at=1000.0 * number + 110, length=kernel_us)
    return made


def test_what_the_probe_counted_stays_beside_what_the_trace_tells(tmp_path: Path) -> None:
    window = beside(record(other=400.0), training(), tmp_path).operators
    assert window is not None
    assert window.complete, window.why_not
    assert (window.dispatch_s, window.flops, window.moved_bytes) == (2e-6, 1e9, 1e6)
    assert (window.num_steps, window.num_kernels, window.num_calls) == (STEPS, 1, 1)
    assert window.device_busy_s == pytest.approx(300 * US, rel=1e-3)


def test_a_step_that_the_script_did_not_complete_is_left_out(tmp_path: Path) -> None:
    made = training()
    made.step(STEPS, 1000.0 * STEPS, 50.0)
    window = beside(record(other=400.0), made, tmp_path).operators
    assert window is not None
    assert window.num_steps == STEPS


def test_without_a_device_there_are_operators_alone(tmp_path: Path) -> None:
    made = Written()
    for number in range(STEPS):
        made.step(number, 1000.0 * number, 1000.0)
        made.host("cpu_op", "aten::mm", 1000.0 * number + 10, 200)
    window = beside(record(), made, tmp_path).operators
    assert window is not None
    assert window.complete, window.why_not
    assert (window.operators[0].name, window.operators[0].device_s, window.num_kernels) == ("aten::mm", None, None)


def test_a_device_of_which_nothing_was_recorded_is_told(tmp_path: Path) -> None:
    made = Written()
    made.step(0, 0, 1000.0)
    made.host("cpu_op", "aten::mm", 10, 200)
    window = beside(record(forward=100.0), made, tmp_path).operators
    assert window is not None
    assert window.why_not == "the profiler saw no kernel on the device"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"traceEvents": []}'])
def test_a_trace_that_cannot_be_read_leaves_what_was_counted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "operators-0.json"
    path.write_text(text)
    window = completed(record(), path).operators
    assert window is not None
    assert window.flops == COUNTED.flops
    assert not window.complete
    assert "operators-0.json" in (window.why_not or "")
    assert completed(record(), tmp_path / "none.json").operators == COUNTED


def test_kernels_that_are_launched_outside_of_modules_are_forward_not_other(tmp_path: Path) -> None:
    """The model is a function: its 300 us lie between the calls that the device's clock knows."""
    run = beside(record(other=350.0, backward=600.0), training(), tmp_path)
    assert device_us(run, Phase.FORWARD) == pytest.approx(300, rel=1e-3)
    assert device_us(run, Phase.OTHER) == pytest.approx(50, rel=1e-2)
    assert device_us(run, Phase.BACKWARD) == pytest.approx(600)


def test_what_a_module_waits_for_is_no_kernel_of_others(tmp_path: Path) -> None:
    """The forward phase holds the kernel and 100 us of waiting: other stays what it was."""
    run = beside(record(forward=400.0, other=350.0), training(), tmp_path)
    assert device_us(run, Phase.FORWARD) == pytest.approx(400)
    assert device_us(run, Phase.OTHER) == pytest.approx(350)


def test_a_gather_within_the_forward_pass_is_communication(tmp_path: Path) -> None:
    """FSDP: 200 us of NCCL in front of 300 us of computing, all of it within the module's call."""
    made = training()
    for number in range(STEPS):
        at = 1000.0 * number
        made.launch(at + 450, at=at + 460, length=200, name="ncclDevKernel_AllGather_RING_LL", stream=9)
    run = beside(record(forward=500.0, other=10.0), made, tmp_path)
    assert device_us(run, Phase.COMMUNICATION) == pytest.approx(200, rel=1e-3)
    assert device_us(run, Phase.FORWARD) == pytest.approx(300, rel=1e-3)
    again = beside(record(forward=300.0, communication=200.0, other=10.0), made, tmp_path)
    assert device_us(again, Phase.FORWARD) == pytest.approx(300), "the script called it: known already"


def checkpointed(folder: Path, *, use_reentrant: bool | None, sparse: bool = False) -> OperatorWindow:
    """Of real steps on the CPU; None: nothing is computed a second time."""
    torch.manual_seed(0)
    block, head = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()), torch.nn.Linear(256, 1)
    path = folder / "operators-0.json"
    graph = torch.sparse_coo_tensor(torch.eye(2).long(), torch.ones(2), (256, 256), check_invariants=True)

    def step() -> None:
        x = torch.randn(256, 256, requires_grad=True)
        y = block(x) if use_reentrant is None else checkpoint(block, x, use_reentrant=use_reentrant)
        torch.autograd.backward(head(torch.sparse.mm(graph, y) if sparse else y).mean())

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        for number in range(STEPS):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
    seen.export_chrome_trace(str(path))
    window = completed(record(), path).operators
    assert window is not None
    return window


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_backward_pass_on_the_cpu_computes_again_is_told(tmp_path: Path, *, use_reentrant: bool) -> None:
    window = checkpointed(tmp_path, use_reentrant=use_reentrant)
    assert window.recomputed_s is not None
    # Of the block's three products one is made twice; how long each takes is the machine's affair.
    assert 0 < window.recomputed_s < window.wall_s


@pytest.mark.parametrize("sparse", [False, True])
def test_where_a_backward_pass_on_the_cpu_computes_nothing_again_that_is_told(tmp_path: Path, *, sparse: bool) -> None:
    assert checkpointed(tmp_path, use_reentrant=None, sparse=sparse).recomputed_s == 0.0
