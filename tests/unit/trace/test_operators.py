"""Events of a profiler, real in kind and hostile in shape -> the figures of a step."""

import math
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hotlap.record import OperatorWindow
from hotlap.trace import table
from hotlap.trace.kernels import on_matrix_cores
from hotlap.trace.nesting import Callers
from hotlap.trace.operators import aggregate
from tests.unit.trace.written import Written


@dataclass
class Event:
    """Times in seconds; `number`: of the launch that it is, or runs for."""

    name: str
    category: str
    begin: float
    end: float
    lane: int = 1
    number: int = 0

    def written(self) -> dict[str, Any]:
        args = {"correlation": self.number} if self.number else {}
        times = {"ts": 1e6 * self.begin, "dur": 1e6 * (self.end - self.begin)}
        return {"ph": "X", "cat": self.category, "name": self.name, "pid": 0, "tid": self.lane, "args": args, **times}


def operator(name: str, begin: float, end: float, *, lane: int = 1) -> Event:
    return Event(f"aten::{name}", "cpu_op", begin, end, lane)


def launch(begin: float, number: int, *, name: str = "cudaLaunchKernel") -> Event:
    return Event(name, "cuda_runtime", begin, begin + 0.1, number=number)


def work(
    begin: float, end: float, number: int, *, name: str = "sm80_xmma_gemm", category: str = "kernel", lane: int = 7
) -> Event:
    return Event(name, category, begin, end, lane, number)


def seen(*events: Event, on_device: bool, num_steps: int, wall_s: float) -> OperatorWindow:
    # One that is nothing to look at, so that no trace is empty.
    some = Written([event.written() for event in (*events, Event("main", "python_function", 0.0, 0.0))])
    with TemporaryDirectory() as folder:
        trace = table.read(some.save(Path(folder) / "trace.json"))
    every = trace.start == trace.start
    who = Callers(trace, frozenset(range(len(trace.lanes))))
    return aggregate(trace, every, who, num_steps=num_steps, wall_s=wall_s, on_device=on_device)


def on_cpu(*events: Event, num_steps: int = 1, wall_s: float = 10.0) -> OperatorWindow:
    return seen(*events, num_steps=num_steps, wall_s=wall_s, on_device=False)


def on_gpu(*events: Event, num_steps: int = 1, wall_s: float = 10.0) -> OperatorWindow:
    return seen(*events, num_steps=num_steps, wall_s=wall_s, on_device=True)


def own_s(window: OperatorWindow) -> dict[str, float]:
    return {one.name: round(one.self_s, 9) for one in window.operators}


def test_an_operators_own_time_is_without_what_it_calls() -> None:
    window = on_cpu(operator("linear", 0, 5), operator("t", 0, 1), operator("addmm", 1, 4), operator("copy_", 2, 3))
    assert own_s(window) == {"aten::linear": 1, "aten::t": 1, "aten::addmm": 2, "aten::copy_": 1}
    assert window.num_calls == 1
    assert window.complete


def test_figures_are_per_step() -> None:
    window = on_cpu(operator("mm", 0, 1), operator("mm", 2, 3), num_steps=2)
    assert (window.operators[0].per_step, window.operators[0].self_s, window.wall_s) == (1, 1, 5)


def test_threads_do_not_nest_in_each_other() -> None:
    window = on_cpu(operator("mm", 0, 4), operator("mul", 1, 2, lane=2))
    assert window.num_calls == 2
    assert own_s(window) == {"aten::mm": 4, "aten::mul": 1}


def test_autograds_frames_are_no_operators_and_a_compiled_graph_is_one() -> None:
    names = (
        "torchvision::nms",
        "autograd::engine::evaluate_function: AddmmBackward0",
        "torch::autograd::AccumulateGrad",
        "Optimizer.step#Adam.step",
        "## Call CompiledFxGraph fabc ##",
        "## Call CompiledFxGraph fdef ##",
    )
    window = on_cpu(operator("mm", 0, 1), *(Event(name, "cpu_op", at, at + 0.5) for at, name in enumerate(names, 2)))
    assert own_s(window) == {"aten::mm": 1, "torchvision::nms": 0.5, "compiled graph": 1}


def test_only_the_costliest_operators_are_kept() -> None:
    window = on_cpu(*(operator(f"op{i}", i / 10, i / 10 + i / 1000) for i in range(60)))
    assert len(window.operators) == 40
    assert window.operators[0].name == "aten::op59"


def test_an_empty_trace_is_not_complete() -> None:
    window = on_cpu()
    assert not window.complete
    assert window.why_not == "the profiler saw no operator"
    assert (window.num_calls, window.operators) == (0, ())


def test_overlapping_events_never_make_a_time_negative_or_the_whole_longer_than_the_window() -> None:
    window = on_cpu(operator("a", 0, 5), operator("b", 3, 8), operator("c", 4, 4), operator("d", 6, 2), wall_s=8)
    assert all(one.self_s >= 0 for one in window.operators)


def test_operators_beyond_the_window_are_noticed() -> None:
    assert "in a window of" in (on_cpu(operator("mm", 0, 30)).why_not or "")


def test_the_device_is_busy_when_anything_runs_and_kernels_belong_to_operators() -> None:
    window = on_gpu(operator("mm", 0, 1), launch(0.5, 1), launch(1.2, 2), work(1, 3, 1), work(2, 5, 2, lane=8))
    assert window.complete
    assert (window.num_kernels, window.kernel_s, window.device_busy_s) == (2, 2.5, 4)
    assert window.operators[0].device_s == 2


def test_kernels_of_one_graph_share_a_launch() -> None:
    graph = launch(0, 1, name="cudaGraphLaunch")
    assert on_gpu(operator("mm", 0, 9), graph, work(1, 2, 1), work(2.5, 3, 1)).complete


def test_copies_are_exposed_where_no_kernel_runs() -> None:
    copy = work(1, 4, 2, name="Memcpy HtoD (Pageable -> Device)", category="gpu_memcpy", lane=9)
    window = on_gpu(operator("mm", 0, 9), launch(0, 1), launch(0, 2, name="cudaMemcpyAsync"), work(3, 8, 1), copy)
    assert (window.copy_s, window.copy_exposed_s, window.device_busy_s) == (3, 2, 7)


def test_communication_is_exposed_where_nothing_is_computed() -> None:
    talk = work(2, 6, 2, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", lane=9)
    window = on_gpu(operator("mm", 0, 9), launch(0, 1), launch(0, 2), work(1, 3, 1), talk)
    assert (window.communication_s, window.communication_exposed_s) == (4, 3)
    assert on_gpu(operator("mm", 0, 9), launch(0, 1), work(1, 3, 1)).communication_s is None
    cleared = work(3, 4, 3, name="Memset (Device)", category="gpu_memset")
    window = on_gpu(operator("mm", 0, 9), *(launch(0, number) for number in (1, 2, 3)), work(1, 3, 1), talk, cleared)
    assert window.communication_exposed_s == 2, "memory that is set is work, as in the phases of a step"


def test_lost_kernels_are_noticed_and_no_figure_of_the_device_is_given() -> None:
    window = on_gpu(operator("mm", 0, 9), *(launch(i / 10, i) for i in range(1, 11)), work(1, 3, 1))
    assert window.why_not == "the profiler lost the kernels of 9 of 10 launches"
    assert (window.num_kernels, window.device_busy_s) == (None, None)
    assert window.operators


def test_a_device_without_any_kernel_is_noticed() -> None:
    assert on_gpu(operator("mm", 0, 9)).why_not == "the profiler saw no kernel on the device"


def test_a_device_that_was_busy_for_longer_than_time_passed_is_noticed() -> None:
    events = operator("mm", 0, 1), launch(0, 1), work(1, 9, 1)
    late = launch(9, 2, name="cudaEventRecord")
    assert on_gpu(*events, wall_s=9).complete
    assert "the device was busy for 8 s of 4 s" in (on_gpu(*events, late, wall_s=4).why_not or "")


def test_work_that_was_queued_when_the_host_was_done_is_no_contradiction() -> None:
    assert on_gpu(operator("mm", 0, 1), launch(0, 1), work(0.5, 9, 1), wall_s=1).complete


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ampere_sgemm_128x64_tn", False),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4", False),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn", True),
        ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", True),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", True),
        (
            "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_tensor16x8x8",
            True,
        ),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT", True),
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8", True),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", True),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", None),
    ],
)
def test_tensor_cores_are_known_by_the_names_of_kernels(name: str, found: bool | None) -> None:
    assert on_matrix_cores(name) is found


times = st.floats(-5, 50, allow_nan=False)
KINDS = ("cpu_op", "user_annotation", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset", "python_function")


@given(
    st.lists(
        st.builds(
            Event,
            name=st.sampled_from(["aten::mm", "cudaLaunchKernel", "gemm", "nccl", "Memcpy HtoD"]),
            category=st.sampled_from(KINDS),
            begin=times,
            end=times,
            lane=st.integers(0, 2),
            number=st.integers(0, 5),
        ),
        max_size=12,
    )
)
@settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_no_list_of_events_makes_a_figure_absurd(events: list[Event]) -> None:
    for on_device in (False, True):
        window = seen(*events, num_steps=2, wall_s=40.0, on_device=on_device)
        figures = [
            window.num_calls, window.device_busy_s, window.copy_s, window.kernel_s,
            window.copy_exposed_s, window.communication_s, window.communication_exposed_s,
        ]  # fmt: skip
        assert all(value is None or (math.isfinite(value) and value >= -1e-9) for value in figures)
        assert all(one.self_s >= 0 for one in window.operators)
        assert window.complete == (window.why_not is None)
