"""Precisions: what users call them -> which numbers are stored, and which unit of a device multiplies them."""

from enum import StrEnum

from hotlap.errors import UserError
from hotlap.predict.catalogue import Device


class Precision(StrEnum):
    """How a training step computes."""

    FP32 = "fp32"
    """As torch comes: convolutions may use TF32 where there is such a unit, matrix products as the script allows."""
    IEEE = "fp32-ieee"
    """FP32 everywhere, TF32 switched off."""
    TF32 = "tf32"
    """FP32 in memory; TF32 in matrix products and convolutions."""
    FP16 = "fp16"
    """Mixed: autocast to float16 (or a model in half precision)."""
    BF16 = "bf16"
    """Mixed: autocast to bfloat16."""
    FP64 = "fp64"

    @property
    def mixed(self) -> bool:
        """Matrix products read and write two bytes a number."""
        return self in (Precision.FP16, Precision.BF16)


BY_DTYPE = {"float16": Precision.FP16, "bfloat16": Precision.BF16, "float64": Precision.FP64}
"""Of torch's types those that settle the precision; float32 leaves it open."""

# As torch and Lightning call them.
_SPELLINGS = BY_DTYPE | {
    "float32": Precision.FP32, "32-true": Precision.FP32, "highest": Precision.IEEE, "high": Precision.TF32,
    "amp": Precision.FP16, "half": Precision.FP16, "16-mixed": Precision.FP16, "bf16-mixed": Precision.BF16,
    "double": Precision.FP64,
}  # fmt: skip


def parse(name: str | Precision) -> Precision:
    """What a user wrote -> the precision.

    Raises:
        UserError: no precision is called that.
    """
    known = {one.value: one for one in Precision} | _SPELLINGS
    text = str(name).lower().strip().replace("_", "-").replace(" ", "-")
    if text not in known:
        raise UserError(f'No precision is called "{name}". Known: {", ".join([*Precision, "amp"])}.')
    return known[text]


def matrix_units(device: Device, precision: Precision, *, tf32: bool) -> float:
    """Operations a second of the matrix units that products and convolutions run on; 0: they run on lanes.

    `tf32`: whether FP32 work may use TF32.
    """
    if precision.mixed:
        return device.tensor if device.bf16 or precision is Precision.FP16 else 0.0
    return device.tf32 if precision is Precision.TF32 or (precision is Precision.FP32 and tf32) else 0.0


def matrix_rate(device: Device, precision: Precision, *, tf32: bool) -> float:
    """The same, or that of the lanes. (Without a unit for bfloat16, libraries convert to FP32 and back.)"""
    lanes = {Precision.FP64: device.fp64, Precision.FP16: device.fp16}.get(precision, device.fp32)
    return max(matrix_units(device, precision, tf32=tf32), lanes)
