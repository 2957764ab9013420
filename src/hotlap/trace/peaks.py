"""What the GPU of a trace reaches at best in products of matrices, by the catalogue: to hold shapes against."""

from hotlap.errors import UserError
from hotlap.predict.catalogue import resolve
from hotlap.predict.precision import Precision, matrix_rate

PRECISIONS = {"float16": Precision.FP16, "bfloat16": Precision.BF16, "float64": Precision.FP64}
# torch sees each of their two dies as a device.
_DIES = {"Instinct MI250": 2, "Instinct MI250X": 2}


def matrix_peak(device: str, dtype: str, *, on_matrix_cores: bool) -> float | None:
    """Operations a second of numbers of this type, in torch's words; None for a GPU or a type that is not known, and
    where a name fits boards that differ.

    Arguments:
        on_matrix_cores: of float32, whether the kernels ran there (TF32).
    """
    if dtype != "float32" and dtype not in PRECISIONS:
        return None
    try:
        match = resolve(device)
    except UserError:
        return None
    if match.assumption is not None:
        return None
    precision = PRECISIONS.get(dtype, Precision.TF32 if on_matrix_cores else Precision.IEEE)
    peak = matrix_rate(match.device, precision, tf32=precision is Precision.TF32)
    return peak / _DIES.get(match.device.name, 1)
