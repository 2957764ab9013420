"""Devices of the user: a TOML file -> devices beside those of the catalogue."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from hotlap.errors import UserError
from hotlap.predict.catalogue import GIGA, LANE_BYTES_S, USUAL_HZ, Device, Link

TERA = 1e12
# Of a multiprocessor, as most architectures have them: tells how many there are.
LANES = 128
# What a user must give for a device of his own, and what may be left out: key -> field, and its unit in that of the
# field; or the value where it is left out.
_REQUIRED = {"fp32_tflops": ("fp32", TERA), "bandwidth_gbs": ("bandwidth", GIGA), "memory_gb": ("memory", 2.0**30)}
_RATES = {
    "tensor_tflops": ("tensor", TERA), "tf32_tflops": ("tf32", TERA), "fp64_tflops": ("fp64", TERA),
    "link_gbs": ("link_bytes_s", GIGA),
}  # fmt: skip
# TOML knows `inf`, of which nothing can be computed.
_MOST = 1e9
_Above0 = Annotated[float, msgspec.Meta(gt=0, le=_MOST)]
_FIELDS: list[Any] = [
    *((key, _Above0) for key in _REQUIRED),
    *((key, Annotated[float, msgspec.Meta(ge=0, le=_MOST)], 0.0) for key in _RATES),
    ("power_w", _Above0, 250.0), ("link", Link | None, None), ("bf16", bool, False), ("peer_access", bool, True),
]  # fmt: skip
_Sheet = msgspec.defstruct("_Sheet", [("name", str), *_FIELDS], kw_only=True, forbid_unknown_fields=True)
_File = msgspec.defstruct("_File", [("device", Annotated[list[_Sheet], msgspec.Meta(min_length=1)])])  # type: ignore[valid-type]


def load(path: Path) -> tuple[Device, ...]:
    """Devices of the user from TOML: `[[device]]` tables in the units of data sheets (see docs/predict.md).

    Raises:
        UserError: the file cannot be read, or a table lacks a figure or has one that hotlap does not know.
    """
    try:
        sheets: Any = msgspec.toml.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        known = ", ".join(_Sheet.__struct_fields__)
        raise UserError(f"{path}: {error}. It must hold [[device]] tables; their keys: {known}.") from None
    return tuple(_own(msgspec.structs.asdict(sheet)) for sheet in sheets.device)


def _own(given: dict[str, Any]) -> Device:
    fields = {field: given.pop(key) * unit for key, (field, unit) in {**_REQUIRED, **_RATES}.items()}
    fields["fp64"] = fields["fp64"] or fields["fp32"] / 32
    fields["units"] = max(1, round(fields["fp32"] / (2 * LANES * USUAL_HZ)))
    family = f"user: {given['name']}"  # akin to no other
    return Device(family=family, fp16=fields["fp32"], pcie_bytes_s=16 * LANE_BYTES_S[4], **fields, **given)
