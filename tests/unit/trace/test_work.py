"""Kernels by what they compute: names as they stand in traces of NVIDIA's and AMD's GPUs."""

from pathlib import Path

import pytest

from hotlap import rules
from hotlap.trace.kernels import Work, collective, on_matrix_cores, work_of
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
        ("void upsample_bilinear2d_out_frame<float>", "aten::upsample_bilinear2d", Work.OTHER, None),
        ("void multi_tensor_apply_kernel<LpNormFunctor<float>>", "aten::_foreach_norm", Work.UPDATE, None),
        ("void gemmSN_TN_kernel<float>", "aten::baddbmm", Work.MATRIX, False),
        ("my_own_kernel", "", Work.OTHER, None),
    ],
)
def test_a_kernel_is_known_by_its_operator_and_its_name(
    kernel: str, operator: str, work: Work, on_cores: bool | None
) -> None:
    assert work_of(kernel, operator) is work
    assert on_matrix_cores(kernel) is on_cores


def test_kernels_are_told_by_kind(tmp_path: Path) -> None:
    made = Written()
    for number in range(3):
        at = number * 1000.0
        made.step(number, at, 1000)
        for place in range(2):
            made.launch(at + 20 * place, at=at + 50 + 200 * place, length=200, name="ampere_sgemm_128x64_nn")
        made.launch(at + 60, at=at + 500, length=50, name="vectorized_elementwise_kernel", operator="aten::add")
    window = made.read(tmp_path).run.operators
    assert window is not None
    assert [(one.name, one.per_step) for one in window.work] == [("matrix products", 2.0), ("elementwise", 1.0)]
    assert [one.device_s for one in window.work] == pytest.approx([400 * US, 50 * US])
    assert window.tensor_core_share == 0.0


@pytest.mark.parametrize(
    ("types", "kernel", "halved"),
    [
        (["c10::Half", "float"], "ampere_sgemm_128x64_nn", True),
        (["Scalar", "", "c10::BFloat16"], "nvjet_tst_128x256", True),
        (["float", "float"], "sm90_xmma_gemm_bf16bf16", False),
        (None, "sm90_xmma_gemm_bf16bf16", True),
        (None, "ampere_sgemm_128x64_nn", False),
        ([["no", 3]], "sm90_xmma_gemm_bf16bf16", True),
    ],
)
def test_products_in_half_precision_need_no_lever_for_it(
    types: list[object] | None, kernel: str, halved: bool, tmp_path: Path
) -> None:
    made = Written()
    made.step(0, 0, 1000)
    made.launch(0, at=50, length=200, name=kernel)
    made.events[-3]["args"] |= {} if types is None else {"Input type": types}
    assert made.read(tmp_path).run.autocast is halved


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
