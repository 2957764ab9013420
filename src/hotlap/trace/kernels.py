"""What a kernel computes, and whether on matrix cores: by the operator that launched it, and by its own name."""

import re
from enum import StrEnum
from functools import lru_cache


class Work(StrEnum):
    """What kernels do for a training."""

    COMMUNICATION = "communication"
    ATTENTION = "attention"
    CONVOLUTION = "convolutions"
    MATRIX = "matrix products"
    RECURRENT = "recurrent layers"
    NORMALISATION = "normalisation"
    UPDATE = "optimizer updates, many tensors at once"
    EMBEDDING = "embeddings"
    SOFTMAX = "softmax and losses"
    POOL = "pooling"
    LAYOUT = "copies, casts and changes of layout"
    SORT = "sorting, indexing and scattering"
    REDUCTION = "reductions"
    ELEMENTWISE = "elementwise"
    OTHER = "other kernels"


# Of several that match, the first one counts. Operators as ATen names them, and gradients with their operator; kernels
# of cuBLAS, cuDNN, CUTLASS, Triton, of Tensile, MIOpen and composable kernels on AMD, and ATen's own.
_PATTERNS = {
    Work.COMMUNICATION: r"nccl|rccl|msccl",
    Work.ATTENTION: r"attention|scaled_dot_product|flash_|flashattn|fmha|attn_fwd|attn_bwd|native_multi_head",
    Work.CONVOLUTION: r"conv(?!ert)|winograd|wgrad|dgrad|fprop|[sh]cudnn|im2col|col2im|igemm_(?:fwd|bwd|wrw)|implicit_",
    Work.RECURRENT: r"rnn|lstm|gru(?:_|\b)",
    Work.MATRIX: r"::\w*mm$|_mm\b|::(?:add)?mv|::dot$|(?<![a-z])linear(?![a-z])|matmul|einsum"
    r"|(?<!fb)gemm|gemv|cutlass|nvjet|xmma|splitK|cijk_|triton_tem|884|1688|16816",
    Work.UPDATE: r"_foreach_|multi_tensor_apply|adam|sgd_|_fused_(?:sgd|adagrad)",
    Work.NORMALISATION: r"norm|bn_fw|bn_bw|welford|GammaBeta",
    Work.EMBEDDING: r"embedding",
    Work.SOFTMAX: r"softmax|nll_loss|cross_entropy",
    Work.POOL: r"pool",
    Work.SORT: r"sort|index|gather|scatter|topk|masked_select|nonzero|unique|bincount|DeviceSelect|DeviceScan",
    Work.LAYOUT: r"copy|transpose|permute|nchwToNhwc|nhwcToNchw|CatArray|tensorTransform|SubTensorOp",
    Work.REDUCTION: r"reduce|triton_red|triton_per|\bsum\b",
    Work.ELEMENTWISE: r"elementwise|triton_poi|pointwise|dropout|philox|distribution",
}
_NAMED = {work: re.compile(pattern, re.IGNORECASE) for work, pattern in _PATTERNS.items()}

_ON_MATRIX_CORES = (Work.ATTENTION, Work.CONVOLUTION, Work.MATRIX, Work.RECURRENT)
# Names in use on tensor cores: the list that torch's own TensorBoard plugin kept (TC_Allowlist, kineto/tb_plugin), and
# what came later: Hopper's wgmma and nvjet, flash attention, "tensorop" of CUTLASS. On AMD: instructions of the matrix
# cores (mfma, wmma), which MIOpen and composable kernels call xdl and gtcx, and Tensile by their tile (MI16x16).
_CORES = re.compile(
    r"884|1688|16816|i8816|hmma|imma|wgmma|gmma|tensorop|tensor\d+x\d+x\d+|nvjet|flash_|fmha_cutlass|_tf32|tf32f32"
    r"|bf16bf16|f16f16|first_layer_wgrad_kernel|conv2d_c1_k1|direct_group"
    r"|xdl|gtcx|mfma|wmma|_MI\d+x\d+x\d+",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"ffma|simt|sgemm|dgemm|scudnn", re.IGNORECASE)
# Triton's own and MIOpen's solvers in assembler do not tell; others help a product and are none.
_SILENT = re.compile(r"triton_|miopenSp3|winograd|splitKreduce|offsets|transpose", re.IGNORECASE)
_COLLECTIVE = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")


# A trace holds the same few hundred names again and again.
_remembered = lru_cache(maxsize=1 << 14)


@_remembered
def work_of(kernel: str, operator: str = "") -> Work:
    """By the operator first: the same kernel multiplies matrices for a convolution and for a linear layer."""
    if _NAMED[Work.COMMUNICATION].search(kernel):
        return Work.COMMUNICATION
    found = (work for name in (operator, kernel) for work, pattern in _NAMED.items() if pattern.search(name))
    return next(found, Work.OTHER)


@_remembered
def on_matrix_cores(kernel: str) -> bool | None:
    """True for a product on tensor cores (AMD: matrix cores), False for one on plain ones; None for what is no product
    of matrices, or does not tell."""
    if work_of(kernel) not in _ON_MATRIX_CORES:
        return None
    if _PLAIN.search(kernel):
        return False
    if _CORES.search(kernel):
        return True
    return None if _SILENT.search(kernel) else False


def collective(kernel: str, told: str = "") -> str:
    """ "AllReduce", of a kernel of NCCL or RCCL. Where one kernel does for all kinds, what is `told`, "allreduce", or
    else the library."""
    found = _COLLECTIVE.match(kernel)
    return found[1] if found is not None and found[1] != "Generic" else told or "NCCL"
