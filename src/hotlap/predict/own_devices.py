"""Devices of the user: a TOML file -> devices beside those of the catalogue."""

import tomllib
from pathlib import Path

from hotlap.errors import UserError
from hotlap.predict.catalogue import GIGA, Device, Link

# What a user must give for a device of his own, and what may be left out, in the units of data sheets.
_REQUIRED = ("name", "fp32_tflops", "bandwidth_gbs", "memory_gb")
_OPTIONAL = {
    "vendor": "user", "family": "user", "kind": "gpu", "year": 0, "units": 1, "fp64_tflops": 0.0, "fp16_tflops": 0.0,
    "tensor_tflops": 0.0, "tf32_tflops": 0.0, "bf16": False, "l2_mb": 4.0, "pcie_generation": 4,
    "pcie_lanes": 16, "link": "", "link_gbs": 0.0, "peer_access": True, "power_w": 250.0, "source": "given by the user",
}  # fmt: skip


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
    if missing := [key for key in _REQUIRED if key not in table]:
        raise UserError(f"{where}: {', '.join(missing)} missing.")
    if unknown := [key for key in table if key not in _REQUIRED and key not in _OPTIONAL]:
        raise UserError(f"{where}: {', '.join(unknown)} not known. Known: {', '.join((*_REQUIRED, *_OPTIONAL))}.")
    values = {**_OPTIONAL, **table}
    for key, value in values.items():
        expected = (int, float) if isinstance(_OPTIONAL.get(key, 0.0 if key != "name" else ""), (int, float)) else str
        if not isinstance(value, expected):
            raise UserError(f"{where}: {key} = {value!r} is not a {'number' if expected is not str else 'text'}.")
    if not all(values[key] > 0 for key in (*_REQUIRED[1:], "power_w")):
        raise UserError(f"{where}: fp32_tflops, bandwidth_gbs, memory_gb and power_w must be above 0.")
    try:
        link = Link(values["link"]) if values["link"] else None
    except ValueError:
        raise UserError(f"{where}: link must be one of {', '.join(Link)}.") from None
    fp32 = values["fp32_tflops"] * 1e12
    return Device(
        name=values["name"],
        vendor=values["vendor"],
        family=values["family"],
        kind=values["kind"],
        year=values["year"],
        units=values["units"],
        fp32=fp32,
        fp64=values["fp64_tflops"] * 1e12 or fp32 / 32,
        fp16=max(values["fp16_tflops"] * 1e12, fp32),
        tensor=values["tensor_tflops"] * 1e12,
        tf32=values["tf32_tflops"] * 1e12,
        bf16=values["bf16"],
        bandwidth=values["bandwidth_gbs"] * GIGA,
        memory=values["memory_gb"] * 2**30,
        cache=values["l2_mb"] * 2**20,
        pcie_generation=values["pcie_generation"],
        pcie_lanes=values["pcie_lanes"],
        link=link,
        link_bytes_s=values["link_gbs"] * GIGA,
        peer_access=values["peer_access"],
        power_w=values["power_w"],
        sources=(values["source"],),
    )
