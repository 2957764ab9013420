"""Devices of the user: a TOML file -> devices beside those of the catalogue."""

import tomllib
from pathlib import Path

from hotlap.errors import UserError
from hotlap.predict.catalogue import GIGA, USUAL_HZ, Device, Link

TERA = 1e12
# Of a multiprocessor, as most architectures have them: tells how many there are where the user does not.
LANES = 128
# What a user must give for a device of his own, and what may be left out: key -> field, and its unit in that of the
# field; or the value where it is left out.
_REQUIRED = {"fp32_tflops": ("fp32", TERA), "bandwidth_gbs": ("bandwidth", GIGA), "memory_gb": ("memory", 2.0**30)}
_RATES = {
    "fp64_tflops": ("fp64", TERA), "fp16_tflops": ("fp16", TERA), "tensor_tflops": ("tensor", TERA),
    "tf32_tflops": ("tf32", TERA), "l2_mb": ("cache", 2.0**20), "link_gbs": ("link_bytes_s", GIGA),
}  # fmt: skip
_AS_THEY_ARE = {
    "family": "user", "kind": "gpu", "year": 0, "units": 0, "bf16": False, "pcie_generation": 4, "pcie_lanes": 16,
    "peer_access": True, "power_w": 250.0,
}  # fmt: skip
_OPTIONAL = {**dict.fromkeys(_RATES, 0.0), **_AS_THEY_ARE, "link": "", "source": "given by the user"}


def load(path: Path) -> tuple[Device, ...]:
    """Devices of the user from TOML: `[[device]]` tables in the units of data sheets (see docs/predict.md).

    Raises:
        UserError: the file cannot be read, or a table lacks a figure or has one that hotlap does not know.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("device", [])
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not TOML: {error}.") from None
    if not isinstance(tables, list) or not tables:
        raise UserError(f"{path} holds no [[device]] table.")
    return tuple(_own(table, where=f"{path}, device {index + 1}") for index, table in enumerate(tables))


def _own(table: object, *, where: str) -> Device:
    if not isinstance(table, dict):
        raise UserError(f"{where}: not a table.")
    required = ("name", *_REQUIRED)
    if missing := [key for key in required if key not in table]:
        raise UserError(f"{where}: {', '.join(missing)} missing.")
    if unknown := [key for key in table if key not in required and key not in _OPTIONAL]:
        raise UserError(f"{where}: {', '.join(unknown)} not known. Known: {', '.join((*required, *_OPTIONAL))}.")
    values = {**_OPTIONAL, **table}
    for key, value in values.items():
        expected = str if key == "name" or isinstance(_OPTIONAL.get(key), str) else (int, float)
        if not isinstance(value, expected):
            raise UserError(f"{where}: {key} = {value!r} is not a {'text' if expected is str else 'number'}.")
    if not all(values[key] > 0 for key in (*_REQUIRED, "power_w")):
        raise UserError(f"{where}: fp32_tflops, bandwidth_gbs, memory_gb and power_w must be above 0.")
    try:
        link = Link(values["link"]) if values["link"] else None
    except ValueError:
        raise UserError(f"{where}: link must be one of {', '.join(Link)}.") from None
    fields = {field: values[key] * unit for key, (field, unit) in {**_REQUIRED, **_RATES}.items()}
    fields["fp64"] = fields["fp64"] or fields["fp32"] / 32
    fields["fp16"] = max(fields["fp16"], fields["fp32"])
    values["units"] = values["units"] or max(1, round(fields["fp32"] / (2 * LANES * USUAL_HZ)))
    rest = {key: values[key] for key in ("name", *_AS_THEY_ARE)}
    return Device(**fields, **rest, link=link, sources=(values["source"],))
