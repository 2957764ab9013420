"""Kernels by what they compute, operators by shape: names as they stand in traces of NVIDIA's and AMD's GPUs."""

from pathlib import Path

import pytest

from hotlap import rules
from hotlap.trace import peaks
from hotlap.trace.arguments import Arguments, flop, read
from hotlap.trace.kernels import Work, collective, on_matrix_cores, work_of
from hotlap.trace.table import Written as Given
from tests.unit.trace.written import Written

US = 1e-6


@pytest.mark.parametrize(
    ("kernel", "operator", "work", "on_cores"),
    [
        ("volta_sgemm_64x64_nt", "aten::addmm", Work.MATRIX, False),
        ("volta_sgemm_64x64_nt", "aten::cudnn_convolution", Work.CONVOLUTION, False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "", Work.MATRIX, True),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64>", "", Work.MATRIX, True),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTN", "", Work.MATRIX, True),
        ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32_wt32x32x8", "", Work.CONVOLUTION, True),
        ("_ZN2ck16tensor_operation6device39kernel_grouped_conv_fwd_xdl_cshuffle_v3", "", Work.CONVOLUTION, True),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI32x32x8x1_SN", "", Work.MATRIX, True),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits>", "", Work.ATTENTION, True),
        ("triton_poi_fused_add_gelu_3", "", Work.ELEMENTWISE, None),
        ("triton_red_fused_native_layer_norm_0", "", Work.NORMALISATION, None),
        ("triton_tem_fused_mm_1", "", Work.MATRIX, None),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>", "", Work.CONVOLUTION, None),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "aten::mm", Work.COMMUNICATION, None),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", "aten::cat", Work.LAYOUT, None),
        ("void fbgemm_gpu::permute_indices_weights_kernel<false, int>", "", Work.LAYOUT, None),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", "", Work.UPDATE, None),
        ("my_own_kernel", "", Work.OTHER, None),
    ],
)
def test_a_kernel_is_known_by_its_operator_and_its_name(
    kernel: str, operator: str, work: Work, on_cores: bool | None
) -> None:
    assert work_of(kernel, operator) is work
    assert on_matrix_cores(kernel) is on_cores


def given(*shapes: tuple[int, ...], **values: str) -> Arguments:
    last = max((int(key[1:]) for key in values), default=-1)
    return Arguments(shapes=shapes, dtype="", values=tuple(values.get(f"_{i}", "") for i in range(last + 1)))


@pytest.mark.parametrize(
    ("operator", "arguments", "expected"),
    [
        ("aten::mm", given((4, 5), (5, 6)), 2 * 4 * 5 * 6),
        ("aten::addmm", given((6,), (4, 5), (5, 6)), 2 * 4 * 5 * 6),
        ("aten::bmm", given((3, 4, 5), (3, 5, 6)), 2 * 3 * 4 * 5 * 6),
        ("aten::_flash_attention_forward", given((2, 8, 3, 16), (2, 9, 3, 16), _8="False"), 4 * 2 * 3 * 8 * 9 * 16),
        ("aten::_flash_attention_forward", given((2, 8, 3, 16), (2, 8, 3, 16), _8="True"), 2 * 2 * 3 * 8 * 8 * 16),
        # 10x10, a kernel of 3, padding 1, stride 2: 5x5.
        (
            "aten::cudnn_convolution",
            given((2, 3, 10, 10), (8, 3, 3, 3), _2="[1, 1]", _3="[2, 2]", _4="[1, 1]"),
            2 * 2 * 8 * 5 * 5 * 3 * 9,
        ),
        (
            "aten::convolution_backward",
            given((2, 8, 5, 5), (2, 3, 10, 10), (8, 3, 3, 3), _10="[True, True, False]"),
            2 * (2 * 2 * 8 * 5 * 5 * 3 * 9),
        ),
        ("aten::convolution_backward", given((2, 8, 5, 5), (2, 3, 10, 10), (8, 3, 3, 3)), None),
        ("aten::cudnn_convolution", given((2, 3, 10, 10), (8, 3, 3, 3)), None),
        ("aten::add", given((4,), (4,)), None),
        ("aten::mm", given(()), None),
    ],
)
def test_operations_are_those_of_the_shapes(operator: str, arguments: Arguments, expected: float | None) -> None:
    assert flop(operator, arguments) == expected


@pytest.mark.parametrize(
    "dims", [b"", b"{}", b"[[1, [2]], 3, null]", b"not json", b'[["a"]]', b"[[-1]]", b"[" * 500, b"\xff"]
)
def test_arguments_may_be_anything(dims: bytes) -> None:
    told = read(Given(dims, dims, dims))
    assert told.text() == ""
    assert flop("aten::mm", told) is None


def test_operators_are_told_by_shape_and_kernels_by_kind(tmp_path: Path) -> None:
    made = Written()
    for number in range(3):
        at = number * 1000.0
        made.step(number, at, 1000)
        for place in range(2):
            made.launch(at + 20 * place, at=at + 50 + 200 * place, length=200, name="ampere_sgemm_128x64_nn")
            made.events[-3]["args"] |= {"Input Dims": [[1000, 100], [100, 500]], "Input type": ["float", "float"]}
        made.launch(at + 60, at=at + 500, length=50, name="vectorized_elementwise_kernel", operator="aten::add")
    window = made.read(tmp_path).run.operators
    assert window is not None
    assert [(one.name, one.per_step) for one in window.work] == [("matrix products", 2.0), ("elementwise", 1.0)]
    assert [one.device_s for one in window.work] == pytest.approx([400 * US, 50 * US])
    (product,) = window.shaped
    assert (product.name, product.shapes, product.dtype) == ("aten::mm", "[1000, 100] x [100, 500]", "float32")
    assert (product.per_step, product.flop) == (2.0, 2.0 * 1000 * 100 * 500)
    assert product.device_s == pytest.approx(400 * US)
    assert window.tensor_core_share == 0.0


def test_what_a_gpu_reaches_at_best_by_type_and_by_where_kernels_ran() -> None:
    board = "NVIDIA A100-PG509-200"
    assert peaks.matrix_peak(board, "bfloat16", on_matrix_cores=True) == pytest.approx(312e12, rel=0.01)
    assert peaks.matrix_peak(board, "float32", on_matrix_cores=True) == pytest.approx(156e12, rel=0.01)
    assert peaks.matrix_peak(board, "float32", on_matrix_cores=False) == pytest.approx(19.5e12, rel=0.01)
    assert peaks.matrix_peak("AMD Instinct MI250X", "float16", on_matrix_cores=True) == pytest.approx(
        191.5e12, rel=0.01
    )
    assert peaks.matrix_peak("Some GPU", "float32", on_matrix_cores=True) is None
    assert peaks.matrix_peak(board, "int8", on_matrix_cores=True) is None


def test_kernels_of_a_graph_are_told_together_and_where_it_was_launched(tmp_path: Path) -> None:
    """Two graphs a step: one of two kernels within a compiled function, one of a single kernel in no operator."""
    made = Written()
    for number in range(3):
        at = number * 1000.0
        made.step(number, at, 1000)
        made.host("python_function", "train.py(7): main", at, 900)
        made.launch(at + 10, at=at + 50, length=100, call="cudaGraphLaunch", operator="CompiledFunction")
        made.events.append(made.events[-1] | {"name": "relu", "ts": at + 150, "dur": 30})
        made.launch(at + 400, at=at + 450, length=20, call="cudaGraphLaunch")
        del made.events[-3]
    operators = made.read(tmp_path).run.operators
    assert operators is not None
    assert [(one.name, one.per_step) for one in operators.graphs] == [
        ("a graph of 2 kernels, launched in CompiledFunction at train.py:7", 1.0),
        ("a graph of 1 kernel, launched at train.py:7", 1.0),
    ]
    assert [one.device_s for one in operators.graphs] == pytest.approx([130e-6, 20e-6])


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "AllReduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ReduceScatter"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "NCCL"),
        ("void mscclKernel", "NCCL"),
    ],
)
def test_collectives_by_kind(kernel: str, kind: str) -> None:
    assert collective(kernel) == kind


def test_what_hides_a_collective_is_computing_alone(tmp_path: Path) -> None:
    """A gather of 200 us, half of it beside a kernel, and beside a copy and a reduction that hide nothing."""
    made = Written(rank=0, world_size=2)
    for number in range(2):
        at = number * 1000
        made.step(number, at, 1000)
        made.launch(at, at=at + 300, length=300)
        made.launch(at + 20, at=at + 500, length=200, name="ncclDevKernel_AllGather_RING_LL", stream=20)
        made.launch(at + 40, at=at + 650, length=120, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=24)
        made.launch(at + 60, at=at + 600, length=100, name="Memcpy HtoD", category="gpu_memcpy", stream=30)
    run = made.read(tmp_path).run
    assert run.operators is not None
    gather, reduction = run.operators.collectives
    assert (gather.name, gather.per_step) == ("AllGather", 1.0)
    assert (gather.device_s, gather.hidden_s) == pytest.approx((200 * US, 100 * US))
    assert (reduction.name, round(reduction.hidden_s, 9)) == ("AllReduce", 0.0)
    assert "communication-bound" in [one.code for one in rules.check(run)]
